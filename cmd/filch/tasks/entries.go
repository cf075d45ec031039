package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/needs"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// entries are tasks of a JSON list: with a command each is a value for the
// command; without, each names its own command.
func (f *submitFlags) entries(s *submit.Job, command []string) (source, error) {
	in, err := openInput(f.fromJSON)
	if err != nil {
		return nil, err
	}
	s.Spec.Payloads = true
	if len(command) > 0 {
		list := workflow.NewEntries(in, f.fromJSON)
		next := f.distinctLines(list.NextValue)
		return func() ([]byte, error) {
			v, err := next()
			if err == nil {
				err = f.lengths.Fill([]string{v}, list.At)
			}
			return append([]byte{launcher.PayloadLine}, v...), err
		}, nil
	}
	if workflow.HasPlaces(f.lengths.Option) {
		return nil, filch.Errorf(filch.Invalid, "--length %s: an entry that names its command has no values", f.lengths.Option).WithHint(`the key "time" of an entry is the length of its task`)
	}
	s.Spec.Limits = true
	text, err := seekable(in)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read the tasks of %s: %s", ui.Clean(f.fromJSON), ui.Cause(err))
	}
	var table *needs.Table
	named, err := needs.Named(text)
	if err == nil {
		_, err = text.Seek(0, io.SeekStart)
	}
	if err == nil && named {
		if table, err = f.needsOf(&s.Spec, text); err == nil {
			f.table = table
			_, err = text.Seek(0, io.SeekStart)
		}
	}
	if err != nil {
		return nil, err
	}
	gangs := needs.Gangs{Job: f.each}
	rule := record.Retry{Tasks: true}
	if s.Spec.Retry != nil {
		rule = *s.Spec.Retry
		rule.Tasks = true
	}
	s.Spec.Retry = &rule
	here, err := os.Getwd()
	list := workflow.NewEntries(text, f.fromJSON)
	return func() ([]byte, error) {
		t, err := list.Next()
		if err != nil {
			return nil, err
		}
		f.lengths.Add(t.Cost)
		return f.entry(&t, here, &rule, table, &gangs)
	}, err
}

// entry is the payload of an entry; the job's rule holds where the entry has none.
func (f *submitFlags) entry(t *workflow.Task, here string, job *record.Retry, table *needs.Table, gangs *needs.Gangs) ([]byte, error) {
	i := launcher.TaskItem{Argv: t.Run.Argv, Env: t.Run.Env, Limit: t.Need.TimeLimit}
	if t.Run.Cwd != "" {
		i.Cwd = absolute(here, t.Run.Cwd)
	}
	if t.Need.CPUs > 0 {
		own := append(slices.Clip(f.env), i.Env...)
		env := spec.WithCPUs(append(os.Environ(), own...), os.Environ(), own, t.Need.CPUs)
		for _, kv := range env[len(env)-2:] {
			if strings.HasPrefix(kv, "FILCH_CPUS_PER_TASK=") || strings.HasPrefix(kv, "OMP_NUM_THREADS=") {
				i.Env = append(i.Env, kv)
			}
		}
	}
	if r := t.Run; r.Stdin+r.Stdout+r.Stderr != "" {
		i.Streams = &launcher.Streams{Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr}
	}
	rule := ownRule(&t.Need, true)
	if rule != nil && rule.Delay == 0 {
		rule.Delay = job.Delay
	}
	if rule != nil && rule.Codes == nil {
		rule.Codes = job.Codes
	}
	number := 0
	gang, own, err := gangs.Of(&t.Need.Gang)
	if own {
		i.Gang = gang
	}
	if table != nil && err == nil {
		number, err = table.Number(&t.Need, needs.ShapeOf(gang), "") // known
	}
	if err != nil {
		return nil, err
	}
	return ruledItem(i, rule, number)
}

// seekable is in, or a copy of in in memory.
func seekable(in io.Reader) (io.ReadSeeker, error) {
	if file, ok := in.(*os.File); ok {
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			return file, nil
		}
	}
	b, err := io.ReadAll(io.LimitReader(in, workflow.ListMax+1))
	if int64(len(b)) > workflow.ListMax {
		return nil, filch.Errorf(filch.Invalid, "more than %s", workflow.Bytes(workflow.ListMax))
	}
	return bytes.NewReader(b), err
}

// needsOf reads the needs of all entries.
func (f *submitFlags) needsOf(sp *record.Spec, text io.Reader) (*needs.Table, error) {
	table, list := needs.New(sp), workflow.NewEntries(text, f.fromJSON)
	gangs := needs.Gangs{Job: f.each}
	for entry := 1; ; entry++ {
		t, err := list.Next()
		if errors.Is(err, io.EOF) {
			table.Fill(sp)
			return table, nil
		}
		if err != nil {
			return nil, err
		}
		need := &t.Need
		gang, own, err := gangs.Of(&need.Gang)
		if err == nil {
			_, err = table.Number(need, needs.ShapeOf(gang), fmt.Sprintf("%s: entry %d", list.At(), entry))
		}
		if err == nil && own {
			err = f.noGang(nil)
		}
		if err != nil {
			return nil, needs.At(f.fromJSON+":"+strconv.Itoa(list.Line()), err)
		}
		f.lengths.Differ = f.lengths.Differ || t.Cost > 0
		switch {
		case t.Cost > 0 && (f.to != "" || f.open):
			return nil, needs.At(f.fromJSON+":"+strconv.Itoa(list.Line()), needs.OpenError)
		case f.to != "" && needs.Own(need):
			return nil, filch.Errorf(filch.Invalid, "%s:%d: an entry for the open job %s cannot say what its task takes: the tasks take what the job says", f.fromJSON, list.Line(), f.to).
				WithHint("filch submit --from-json %s makes a job of its own", f.fromJSON)
		case need.Once:
			return nil, filch.Errorf(filch.Invalid, "%s:%d: once is for the whole job", f.fromJSON, list.Line()).WithHint("filch submit --once --from-json %s", f.fromJSON)
		case sp.Once && need.Retries != nil && *need.Retries > 0:
			return nil, filch.Errorf(filch.Invalid, "%s:%d: retries and --once contradict each other", f.fromJSON, list.Line())
		}
	}
}
