package bringup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/alloc"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/spec"
)

// patienceDefault is how long the nodes of an allocation may take to join.
const patienceDefault = 60 * time.Second

// allocation is the allocation to bring the instance up on: the hosts of --hosts,
// else the nodes of the batch job around this process; nil is this machine.
func (o *upOptions) allocation() (*alloc.Allocation, error) {
	if o.hosts != "" {
		if o.nodes > 0 {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "--hosts and --nodes exclude each other"))
		}
		a, err := alloc.List(o.hosts)
		return a, cli.OfOption("hosts", err)
	}
	a, err := alloc.Read(os.Getenv)
	if a == nil || err != nil {
		return nil, err
	}
	if o.nodes > 0 {
		if err := firstNodes(a, o.nodes); err != nil {
			return nil, err
		}
	}
	if o.ends == "" {
		a.FindEnd(context.Background())
	}
	return a, nil
}

// firstNodes leaves n nodes of an allocation, this machine's node among them.
func firstNodes(a *alloc.Allocation, n int) error {
	if n > len(a.Nodes) {
		return ui.Misused(filch.Errorf(filch.Invalid, "--nodes %d: %s job %s has %s", n, a.Kind, a.ID, filch.Plural(len(a.Nodes), "node")).
			WithHint("in a batch job, --nodes is how many nodes of the job get a launcher; for several launchers on this machine: env -u SLURM_JOB_ID -u PBS_JOBID filch up --nodes %d", n))
	}
	here, err := ownIn(a)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(a.Nodes, func(node alloc.Node) bool { return node.Name == here })
	if i >= n {
		a.Nodes[n-1] = a.Nodes[i]
	}
	a.Nodes = a.Nodes[:n]
	return nil
}

// readEnds reads --ends: a clock time of today or tomorrow, a date with a time,
// or a time from now in srun's formats behind a plus.
func readEnds(s string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		d, err := spec.Time(rest)
		if err == nil && d > 0 {
			return now.Add(d), nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if t.Before(now) {
				t = t.AddDate(0, 0, 1)
			}
			return t, nil
		}
	}
	return time.Time{}, ui.Misused(filch.Errorf(filch.Invalid, "--ends %s is not a time", strconv.Quote(s)).
		WithHint("use +90m, 17:30 or 2026-01-31T17:30"))
}

// upNodes brings up the nodes of an allocation.
func (o *upOptions) upNodes(given *alloc.Allocation, command []string) error {
	if rank := os.Getenv("SLURM_PROCID"); given.Kind == alloc.Slurm && rank != "" && rank != "0" {
		ui.Say("started as task " + ui.Clean(rank) + " of a step: task 0 starts the launchers")
		return nil
	}
	if !o.end.IsZero() {
		given.End = o.end
	}
	if given.End.IsZero() && o.hold == 0 {
		o.sayIdle()
	}
	if len(command) == 0 && o.hold == 0 {
		return o.background()
	}
	n, err := o.newNest(given)
	if o.hold > 0 {
		return n.stayUp(os.NewFile(uintptr(o.hold), "pipe"), err)
	}
	if err != nil {
		return err
	}
	started := time.Now()
	quiet := n.showProgress()
	if err := n.start(); err != nil {
		return err
	}
	quiet()
	ui.Say(n.announcement(time.Since(started)))
	if n.went != "" {
		ui.Say(n.went)
	}
	return supervise(command, []string{"FILCH_INSTANCE=" + n.instance, "FILCH_NODE=" + n.local}, func(p *os.Process) { n.watchEnd(n.instance, n.given.End, warnCommand(p)) }, n.end)
}

// showProgress shows how many nodes have joined: on a terminal after each join,
// else once when the start takes long.
func (n *coordinator) showProgress() (done func()) {
	began := time.Now()
	late := time.AfterFunc(cli.SpeakLate, func() {
		if !ui.IsTerminal(os.Stderr) {
			ui.Say(fmt.Sprintf("waiting for %s to join %s", filch.Plural(len(n.given.Nodes), "node"), n.instance))
		}
	})
	told := false
	n.progress = func(joined, of int) {
		if ui.IsTerminal(os.Stderr) && time.Since(began) > cli.SpeakAfter {
			told = true
			fmt.Fprintf(os.Stderr, "\r%s: %d of %d nodes have joined ", n.instance, joined, of)
		}
	}
	return func() {
		late.Stop()
		if told {
			fmt.Fprint(os.Stderr, "\r\033[K")
		}
	}
}

// held is the report of the process in the background to its parent.
type held struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Text     string `json:"text"`
	Went     string `json:"went,omitempty"` // the result for the old queue
	Joined   int    `json:"joined,omitempty"`
	Of       int    `json:"of,omitempty"`
	Err      string `json:"error,omitempty"`
	Hint     string `json:"hint,omitempty"`
	Wrong    bool   `json:"wrong,omitempty"` // the command line is wrong
}

// background starts this command again to hold the instance, waits until the
// instance is up, and prints so. The holder stays in the cgroup of the batch job,
// and ends with the step that the holder keeps open.
func (o *upOptions) background() error {
	r, w, err := os.Pipe()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot make a pipe: %s", ui.Cause(err))
	}
	defer r.Close()
	for _, fd := range proc.Inherited() {
		unix.CloseOnExec(fd)
	}
	cmd := exec.Command("/proc/self/exe", append([]string{"up", "--hold=3"}, o.words()...)...)
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return filch.Errorf(filch.Internal, "cannot start a process in the background: %s", ui.Cause(err))
	}
	w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var h held
		switch {
		case json.Unmarshal(lines.Bytes(), &h) != nil:
		case h.Err != "":
			e := filch.Errorf(filch.Unavailable, "%s", h.Err)
			if h.Hint != "" {
				e = e.WithHint("%s", h.Hint)
			}
			if h.Wrong {
				return ui.Misused(e)
			}
			return e
		case h.Of > 0:
			if ui.IsTerminal(os.Stderr) {
				fmt.Fprintf(os.Stderr, "\r%s: %d of %d nodes have joined \r\033[K", h.Instance, h.Joined, h.Of)
			}
		case h.Went != "":
			ui.Say(h.Went)
		case o.shell:
			fmt.Printf("export FILCH_INSTANCE=%s FILCH_NODE=%s\n", cli.ShellWord(h.Instance), cli.ShellWord(h.Node))
			ui.Say(h.Text)
			return nil
		default:
			fmt.Printf("%s\n", h.Text)
			return nil
		}
	}
	return filch.Errorf(filch.Internal, "the process that holds the instance ended without an error message")
}

// words are the options for the holder.
func (o *upOptions) words() []string {
	w := []string{"--port=" + strconv.Itoa(o.port), "--deadline=" + o.patience.String(), "--drain=" + o.drain.String(), "--learn=" + strconv.FormatBool(o.learn)}
	for _, v := range []struct{ name, value string }{{"instance", o.Instance}, {"address", o.address}, {"iface", o.iface}, {"hosts", o.hosts}, {"join", o.pool}, {"ends", o.ends}, {"hint", o.hint}, {"resume", o.resume}} {
		if v.value != "" {
			w = append(w, "--"+v.name+"="+v.value)
		}
	}
	for _, v := range o.kinds.Labels {
		w = append(w, "--label="+v)
	}
	for _, v := range o.kinds.Resources {
		w = append(w, "--resource="+v)
	}
	for _, v := range o.kinds.Roles {
		w = append(w, "--role="+v)
	}
	if o.kinds.Bad != nil {
		w = append(w, "--drain-bad="+strconv.Itoa(int(*o.kinds.Bad)))
	}
	if o.kinds.Metrics != "" {
		w = append(w, "--metrics="+o.kinds.Metrics)
	}
	if o.chosen {
		w = append(w, "--mirror="+strconv.FormatBool(o.mirror))
	}
	if o.slots != 0 {
		w = append(w, "--slots="+strconv.Itoa(max(o.slots, 0))) // noSlots is --slots=0
	}
	if o.nodes > 0 {
		w = append(w, "--nodes="+strconv.Itoa(o.nodes))
	}
	return w
}

// stayUp is the holder: stayUp reports through the pipe whether the instance came
// up, and stays with the instance. err is the error of the preparation.
func (n *coordinator) stayUp(pipe *os.File, err error) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	tell := func(h held) {
		if n != nil {
			h.Instance, h.Node = n.instance, n.local
		}
		b, _ := json.Marshal(h)
		_, _ = pipe.Write(append(b, '\n'))
	}
	started := time.Now()
	if err == nil {
		n.progress = func(joined, of int) { tell(held{Joined: joined, Of: of}) }
		err = n.start()
	}
	if err != nil {
		r := asReport("", err)
		tell(held{Err: r.Err, Hint: r.Hint, Wrong: errors.As(err, new(ui.Misuse)) || ui.KindOf(err) == filch.Invalid})
		return ui.Exit(filch.ExitOurs)
	}
	if n.went != "" {
		tell(held{Went: n.went})
	}
	tell(held{Text: n.announcement(time.Since(started))})
	_ = pipe.Close()
	n.watchEnd(n.instance, n.given.End, nil)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM)
	all := make(chan struct{})
	go func() {
		for _, l := range n.links {
			<-l.ended
		}
		close(all)
	}()
	go func() {
		for range n.reports { // until all links have ended
		}
	}()
	select {
	case <-heard:
	case <-all:
	}
	n.end()
	return nil
}

// leaveStale removes the directories of dead launchers of an instance.
func leaveStale(base, instance string) {
	for _, d := range place.Nodes(base, instance) {
		if _, busy := lockHolder(d); !busy {
			_ = d.Remove()
		}
	}
	_ = os.Remove(filepath.Join(base, instance)) // fails unless the directory is empty
}
