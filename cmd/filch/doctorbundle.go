package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/bundle"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of what a bundle collects.
const (
	fileWait      = 10 * time.Second // for files of this machine, which may be on a dead server
	queriesWait   = 30 * time.Second // for all launchers of an instance together
	logTail       = 256 << 10        // bytes of a launcher's log
	bundleLogs    = 40               // launchers whose files are read, for each instance
	bundleJobs    = 1000             // newest jobs
	bundlePings   = 16               // launchers asked at once
	bundleEntries = 500              // files that the list of a launcher's folder names
)

// step is a part of a bundle. The step adds nothing itself: a step that hangs is given
// up, and must not write into the bundle later.
type step struct {
	name  string // "the log of n1"
	wait  time.Duration
	files func() ([]bundle.File, error)
}

// do adds the files of a step, or the reason that there are none.
func (s step) do(b *bundle.Bundle) {
	type result struct {
		files []bundle.File
		err   error
	}
	done := make(chan result, 1)
	speak := time.AfterFunc(cli.SpeakLate, func() { ui.Say("still waiting for " + s.name) })
	defer speak.Stop()
	go func() {
		files, err := s.files()
		done <- result{files, err}
	}()
	select {
	case r := <-done:
		for _, f := range r.files {
			b.Add(f)
		}
		errs := []error{r.err}
		if joined, is := r.err.(interface{ Unwrap() []error }); is {
			errs = joined.Unwrap()
		}
		for _, err := range errs {
			if err != nil {
				b.Leave("%s: %s", s.name, err.Error())
			}
		}
	case <-time.After(s.wait):
		b.Leave("%s: no end within %s", s.name, filch.ShortTime(s.wait))
	}
}

// writeBundle collects the state of the instances on this machine into a file.
func writeBundle(g *cli.Global, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot write the bundle: %s is a folder", path).WithHint("filch doctor --bundle %s", filepath.Join(path, "filch.tar.gz")))
	}
	if _, err := os.Lstat(path); err == nil {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot write the bundle: %s exists", path).WithHint("give another name, or remove the file"))
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return ui.Misused(filch.Errorf(filch.Invalid, "cannot write the bundle: there is no folder %s", filepath.Dir(path)))
	}
	base, baseErr := place.Base()
	instances := bringup.InstancesHere(base)
	if name := cmp.Or(g.Instance, os.Getenv("FILCH_INSTANCE")); name != "" {
		if err := place.CheckInstance(name); err != nil {
			return ui.Misused(err)
		}
		if !slices.Contains(instances, name) {
			return filch.Errorf(filch.NotFound, "no instance %s on this machine", name).WithHint("without --instance and FILCH_INSTANCE, the bundle has all instances of this machine")
		}
		instances = []string{name}
	}
	b := bundle.New(knownSecrets(instances))
	if baseErr != nil {
		b.Leave("all launchers: %s", baseErr.Error())
	}
	step{"the machine", fileWait, func() ([]bundle.File, error) { return machineFiles(base), nil }}.do(b)
	step{"the environment", fileWait, func() ([]bundle.File, error) {
		return []bundle.File{{Name: "environment.txt", Text: environmentText()}}, nil
	}}.do(b)
	step{"the settings", configWait + time.Second, func() ([]bundle.File, error) {
		list, err := settings(g)
		if err != nil {
			return nil, err
		}
		return jsonFile("config.json", list)
	}}.do(b)
	for _, name := range instances {
		collectInstance(b, base, name)
	}
	if len(instances) == 0 {
		b.Leave("nodes, roster, jobs and logs: no instance is on this machine")
	}
	now := time.Now()
	packed, err := b.Pack(fmt.Sprintf("State of filch, collected by filch doctor --bundle at %s.\nfilch %s, commit %s, %s.",
		now.UTC().Format(time.RFC3339), filch.Version, ui.Clean(cli.Commit), instancesText(instances)), now)
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot pack the bundle: %s", err.Error())
	}
	if err := place.WritePrivate(path, packed); err != nil {
		return err
	}
	ui.Printf("%s: %s, %s of %s\n", ui.Clean(path), sizeText(int64(len(packed))), filch.Plural(b.Files(), "file"), instancesText(instances))
	ui.Printf("note  secrets are left out as far as filch knows them: look into the file before you send it\n")
	if n := b.Left(); n > 0 {
		ui.Printf("note  %s left out; README.txt in the file says why\n", filch.Plural(n, "part"))
	}
	return nil
}

func instancesText(names []string) string {
	if len(names) == 0 {
		return "no instance"
	}
	return strings.Join(names, ", ")
}

// knownSecrets are the secrets of the instances, as people may have written them, and
// the values of variables that name a secret.
func knownSecrets(instances []string) (secrets []string) {
	found := make(chan []string, 1)
	go func() { // the home may be on a dead server
		var all []string
		for _, name := range instances {
			home, err := place.HomeOf(name)
			if err != nil {
				continue
			}
			if raw, err := place.ReadSecret(home.Secret()); err == nil {
				digits := hex.EncodeToString(raw)
				all = append(all, digits, strings.ToUpper(digits), base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw))
			}
		}
		found <- all
	}()
	select {
	case secrets = <-found:
	case <-time.After(fileWait): // what looks like a secret is still hidden
	}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); bundle.IsSecret(name) {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

func jsonFile(name string, v any) ([]bundle.File, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return []bundle.File{{Name: name, Text: string(text) + "\n"}}, nil
}

// environmentText has the variables FILCH_* of this process.
func environmentText() string {
	var lines []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "FILCH_") {
			lines = append(lines, ui.Clean(kv)+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// machineFiles describes the machine and the disk of the launchers.
func machineFiles(base string) []bundle.File {
	var t strings.Builder
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		fmt.Fprintf(&t, "kernel     %s %s %s\n", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, found := strings.CutPrefix(line, "PRETTY_NAME="); found {
				fmt.Fprintf(&t, "system     %s\n", strings.Trim(strings.TrimSpace(name), `"`))
			}
		}
	}
	t.WriteString(processorText())
	fmt.Fprintf(&t, "memory     %s\n", sizeText(place.Memory()))
	var nofile unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &nofile) == nil {
		fmt.Fprintf(&t, "files      %d open, at most %d\n", nofile.Cur, nofile.Max)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&t, "load       %s", text)
	}
	var disk unix.Statfs_t
	if base != "" && unix.Statfs(base, &disk) == nil {
		fmt.Fprintf(&t, "launchers  %s: %s free of %s\n", base, sizeText(int64(disk.Bavail)*disk.Bsize), sizeText(int64(disk.Blocks)*disk.Bsize))
	}
	t.WriteString("filch      " + versionLine() + "\n")
	return []bundle.File{{Name: "machine.txt", Text: t.String()}}
}

// answer is what a launcher of this machine says of itself.
type answer struct {
	Node   string            `json:"name"`
	PID    string            `json:"pid,omitempty"`
	Error  string            `json:"error,omitempty"` // there is no answer
	Answer *wire.VersionInfo `json:"answer,omitempty"`
	Stats  *wire.StatsInfo   `json:"stats,omitempty"`
}

// collectInstance adds what the launchers say, and what their folders hold.
func collectInstance(b *bundle.Bundle, base, name string) {
	dirs := place.Nodes(base, name)
	if len(dirs) > bundleLogs {
		b.Leave("%s: files of %d of %d launchers on this machine", name, len(dirs)-bundleLogs, len(dirs))
		dirs = dirs[:bundleLogs]
	}
	step{"the launchers of " + name, queriesWait, func() ([]bundle.File, error) { return askInstance(name, dirs) }}.do(b)
	for _, d := range dirs {
		step{"the files of " + name + " " + d.Node, fileWait, func() ([]bundle.File, error) { return launcherFiles(d) }}.do(b)
	}
}

// askInstance asks all launchers here how they are, and the first that answers about
// the instance.
func askInstance(name string, dirs []place.Dir) (files []bundle.File, err error) {
	answers := make([]answer, len(dirs))
	turn := make(chan struct{}, bundlePings)
	var all sync.WaitGroup
	for i, d := range dirs {
		all.Go(func() {
			turn <- struct{}{}
			answers[i] = ping(d)
			<-turn
		})
	}
	all.Wait()
	first, err := jsonFile(name+"/launchers.json", answers)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(answers, func(a answer) bool { return a.Answer != nil })
	if at < 0 {
		return first, filch.Errorf(filch.Unavailable, "none of %s on this machine answers: no nodes, roster and jobs", filch.Plural(len(dirs), "launcher"))
	}
	more, err := askOne(name, dirs[at], func(n filch.NodeName) bool {
		return slices.ContainsFunc(dirs, func(d place.Dir) bool { return d.Node == string(n) })
	})
	return append(first, more...), err
}

// ping asks a launcher for its version and its counters.
func ping(d place.Dir) answer {
	a := answer{Node: d.Node}
	if pid, err := os.ReadFile(d.PIDFile()); err == nil {
		a.PID = strings.TrimSpace(string(pid))
	}
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	defer c.Close()
	var version wire.VersionInfo
	var stats wire.StatsInfo
	if err := cli.Ask(c, cli.AliveWait, &version, wire.VerbVersion); err != nil {
		a.Error = err.Error()
		return a
	}
	a.Answer = &version
	if cli.Ask(c, cli.AliveWait, &stats, wire.VerbStats) == nil {
		a.Stats = &stats
	}
	return a
}

// askOne asks a launcher about nodes, roster and jobs, and examines the answers. An
// answer that does not come leaves the others.
func askOne(name string, d place.Dir, isHere func(filch.NodeName) bool) (files []bundle.File, err error) {
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	add := func(file string, v any) {
		f, e := jsonFile(name+"/"+file, v)
		files, err = append(files, f...), errors.Join(err, e)
	}
	found := []finding{}
	nodes, nodesErr := cli.QueryNodes(c)
	elsewhere := slices.DeleteFunc(slices.Clone(nodes), func(n wire.NodeInfo) bool { return isHere(n.Node) })
	if len(elsewhere) > 0 {
		err = filch.Errorf(filch.Invalid, "logs of %s on other machines: filch doctor --bundle there collects them", filch.Plural(len(elsewhere), "launcher"))
	}
	if nodesErr == nil {
		add("nodes.json", nodes)
		found = append(found, examineNodes(nodes)...)
	}
	roster, rosterErr := queryRoster(c)
	if rosterErr == nil {
		add("roster.json", roster)
		found = append(found, examineStore(roster)...)
	}
	if nodesErr == nil || rosterErr == nil {
		add("doctor.json", found)
	}
	jobs, jobsErr := cli.QueryJobs(c)
	if jobsErr == nil {
		slices.SortStableFunc(jobs, func(a, b launcher.JobInfo) int { return cmp.Compare(b.Submit, a.Submit) })
		if len(jobs) > bundleJobs {
			jobsErr = filch.Errorf(filch.Invalid, "%d older jobs of %d", len(jobs)-bundleJobs, len(jobs))
			jobs = jobs[:bundleJobs]
		}
		for i := range jobs {
			jobs[i].Name, jobs[i].Cause = bundle.Hidden(jobs[i].Name), bundle.Cause(jobs[i].Cause)
		}
		add("jobs.json", jobs)
	}
	return files, errors.Join(err, nodesErr, rosterErr, jobsErr)
}

// launcherFiles are the description, the drain, the ends of standard error, where a
// crash is, and of the log, and the list of the files of a launcher.
func launcherFiles(d place.Dir) (files []bundle.File, err error) {
	prefix := d.Instance + "/" + d.Node + "/"
	for _, path := range []string{d.NodeFile(), d.DrainFile(), filepath.Join(d.Path(), "stderr"), d.Log() + ".1", d.Log()} {
		text, e := tail(path, logTail)
		if e == nil && text == "" {
			continue
		}
		if e == nil {
			files = append(files, bundle.File{Name: prefix + filepath.Base(path), Text: text})
		} else if !os.IsNotExist(e) || path == d.Log() {
			err = errors.Join(err, e)
		}
	}
	return append(files, bundle.File{Name: prefix + "files.txt", Text: listing(d.Path())}), err
}

// tail reads the end of a file, from the beginning of a line.
func tail(path string, most int64) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", filch.Errorf(filch.Denied, "%s is no file", path)
	}
	from := max(0, info.Size()-most)
	text := make([]byte, min(most, info.Size()))
	n, err := f.ReadAt(text, from)
	if n == 0 && info.Size() > 0 {
		return "", err
	}
	s := string(text[:n])
	if from > 0 { // half a line may be half a secret
		_, s, _ = strings.Cut(s, "\n")
	}
	return s, nil
}

// listing lists the files of a launcher: kept output and records by size, without
// their content.
func listing(dir string) string {
	var t strings.Builder
	n := 0
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if n++; n > bundleEntries {
			t.WriteString("...\n")
			return filepath.SkipAll
		}
		if err != nil {
			fmt.Fprintf(&t, "%s: %s\n", ui.Clean(path), ui.Cause(err))
			return nil
		}
		if info, err := e.Info(); err == nil {
			below, _ := filepath.Rel(dir, path)
			fmt.Fprintf(&t, "%s %10d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), strconv.Quote(below))
		}
		return nil
	})
	return t.String()
}

// processorText is the machine's processors, and the CPUs that filch may use.
func processorText() string {
	m, err := place.Machine()
	if err != nil {
		return "cores      " + err.Error() + "\n"
	}
	sockets, domains := map[int32]bool{}, map[int32]bool{}
	for _, p := range m.Threads {
		sockets[p.Socket], domains[p.Domain] = true, true
	}
	text := fmt.Sprintf("cores      %d with %s, in %s and %s\ncpus       %s allowed of %d online\n",
		len(m.Processors(false)), filch.Plural(len(m.Processors(true)), "hardware thread"), filch.Plural(len(sockets), "socket"), filch.Plural(len(domains), "NUMA node"),
		topology.FormatList(m.Allowed), len(m.Threads))
	if len(m.Offline) > 0 {
		text += "offline    " + topology.FormatList(m.Offline) + "\n"
	}
	return text
}
