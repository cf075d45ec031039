package batch

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/pool"
)

const (
	// pastEvery is the time between two writes of a pool into the history.
	pastEvery = time.Minute
	// pastMost bounds the pools in the history; the oldest go.
	pastMost = 1000
	// pastSuffix ends the names of the files, beside the files of jobs.
	pastSuffix = ".pool"
)

// past is a pool in the history of all instances, with its cost in seconds of nodes.
type past struct {
	Instance string `json:"instance"`
	UUID     string `json:"uuid"`
	Pool     string `json:"name"`
	System   string `json:"system"`
	Seen     int64  `json:"seen_unix_ns"` // the last look of its holder
	pool.Totals
}

// keepPast writes a pool into the history in dir; "": no history is kept.
func (k *holder) keepPast(p *pool.Pool, h *held) error {
	h.past = time.Now()
	if k.history == "" {
		return nil
	}
	b, err := json.Marshal(&past{k.dir.Instance, k.uuid, p.Name, p.System, h.past.UnixNano(), p.Cost()})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.history, 0o700); err != nil {
		return err
	}
	path := filepath.Join(k.history, k.uuid+"."+p.Name+pastSuffix)
	if _, err := os.Lstat(path); err != nil {
		prunePast(k.history)
	}
	return place.WritePrivate(path, append(b, '\n'))
}

// prunePast makes place for one more pool.
func prunePast(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"+pastSuffix))
	if len(names) < pastMost {
		return
	}
	age := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil {
			age[name] = info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return age[a].Compare(age[b]) })
	for _, name := range names[:len(names)-pastMost+1] {
		_ = os.Remove(name)
	}
}

// readPast reads the pools of an instance, or of all, that a holder looked at since a time.
func readPast(dir, instance string, since int64) ([]past, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+pastSuffix))
	all := []past{}
	for _, name := range names {
		p := past{}
		b, e := place.ReadPrivate(name)
		if e == nil {
			e = json.Unmarshal(b, &p)
		}
		if e != nil {
			ui.Warn("cannot read " + name + ": " + ui.Cause(e))
			continue
		}
		if (instance == "" || instance == p.Instance) && p.Seen >= since {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b past) int { return cmp.Or(cmp.Compare(a.Seen, b.Seen), strings.Compare(a.Pool, b.Pool)) })
	return all, err
}

// PrintPast prints the pools of an instance, or of all, and their cost; the pool of the last
// look is at the bottom. No launcher is asked.
func PrintPast(instance string, since int64, asJSON bool) error {
	dir, err := place.History()
	if err != nil {
		return err
	}
	all, err := readPast(dir, instance, since)
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot read the history in %s: %s", dir, ui.Cause(err))
	}
	if asJSON {
		return ui.PrintJSON(all)
	}
	t := &ui.Table{Head: []string{"INSTANCE", "POOL", "SYSTEM", "LAST", "SENT", "FAILED", "ASKED", "GRANTED", "WORKED", "IDLE"}, Right: map[int]bool{4: true, 5: true, 6: true, 7: true, 8: true, 9: true}}
	for i := range all {
		p := &all[i]
		t.Add(ui.Clean(p.Instance), ui.Clean(p.Pool), ui.Clean(p.System), time.Unix(0, p.Seen).Format("2006-01-02 15:04:05"), strconv.FormatInt(p.Submitted, 10), strconv.FormatInt(p.Failed, 10),
			askedHours(&p.Totals), hours(p.Granted), hours(p.Worked), hours(p.Idle))
	}
	t.Print()
	return nil
}
