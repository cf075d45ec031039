package bringup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/alloc"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// queueOptions set whether the queue of tasks is mirrored, and which queue to
// resume.
type queueOptions struct {
	resume string // the instance whose queue goes on
	mirror bool
	chosen bool // mirror was given
	old    oldQueue
}

// oldQueue is a queue to resume.
type oldQueue struct {
	from mirror.Queue // "": none
	last int32        // the highest job id in the queue
}

const (
	resumeWait = 15 * time.Minute // for the records of a queue to be written
	pruneBytes = 256 << 20        // of a queue to search for unfinished tasks
)

// findQueue finds the queue of --resume, before anything is started; joins says that the
// nodes join another instance.
func (o *queueOptions) findQueue(joins bool) error {
	if o.resume == "" {
		return nil
	}
	if err := place.CheckInstance(o.resume); err != nil {
		return ui.Misused(cli.OfOption("resume", err))
	}
	switch {
	case joins:
		return ui.Misused(filch.Errorf(filch.Invalid, "--resume and --join exclude each other").WithHint("resume the queue first, then let the other allocation join"))
	case o.chosen && !o.mirror:
		return ui.Misused(filch.Errorf(filch.Invalid, "--resume needs --mirror"))
	}
	home, err := place.HomeOf(o.resume)
	if err != nil {
		return err
	}
	from, err := mirror.Latest(home)
	if err != nil {
		return err
	}
	if home, err = place.HomeOf(from.Instance()); err != nil {
		return err
	}
	sign := alive(from, home)
	for end := time.Now().Add(cli.AliveWait); sign != "" && time.Now().Before(end); sign = alive(from, home) {
		time.Sleep(10 * cli.PollPause) // a launcher killed just now is still ending
	}
	if sign != "" {
		return filch.Errorf(filch.Busy, "%s is up: %s", from.Instance(), sign).
			WithHint("its queue can be resumed once the instance is down; filch up --join adds these nodes to the instance")
	}
	left, _ := from.Read()
	for _, r := range left.Jobs() {
		o.old.last = max(o.old.last, int32(r.ID))
	}
	o.old.from = from
	return nil
}

// alive is the sign that an instance is up, "" for none: a launcher has its file
// of the queue locked. File systems that nodes share may not support locks; there
// an answering launcher counts too.
func alive(q mirror.Queue, home place.Home) string {
	if name := q.Writer(); name != "" {
		return name + " is being written"
	}
	if place.SharedKind(string(q)) == "" {
		return ""
	}
	if addr := listening(home); addr != "" {
		return addr + " answers"
	}
	return ""
}

// goesOn tells whether nodes of another allocation still work on a queue of an instance.
func goesOn(home place.Home) bool {
	list, _ := filepath.Glob(filepath.Join(home.Queues(), "*"))
	return slices.ContainsFunc(list, func(name string) bool {
		q := mirror.Queue(name)
		return q.Next() == "" && q.Writer() != ""
	})
}

// listening is the address of an answering launcher of an instance, "" when no
// launcher answers.
func listening(home place.Home) string {
	c, err := home.ReadContact()
	if err != nil {
		return ""
	}
	return c.Answering()
}

// clearOld removes the files of killed launchers of this name, whose queue goes
// on under the same name.
func (o *queueOptions) clearOld(base, name string) error {
	if o.old.from == "" || name != o.resume && name != o.old.from.Instance() {
		return nil
	}
	for _, d := range place.Nodes(base, name) {
		if _, alive := lockHolder(d); alive {
			return alreadyUp(name, 1, nil)
		}
	}
	leaveStale(base, name)
	home, err := place.HomeOf(name)
	if err != nil {
		return err
	}
	return home.Remove()
}

// makeQueue makes the folder of an instance's queue, which its launchers look
// for.
func makeQueue(home place.Home, uuid string) error {
	if err := home.Make(); err != nil {
		return err
	}
	return mirror.Of(home, uuid).Make()
}

// queueHere is the folder of an instance's queue, "" where this machine lacks the
// folder.
func queueHere(home place.Home, uuid string) string {
	q := mirror.Of(home, uuid)
	if info, err := os.Stat(string(q)); err != nil || !info.IsDir() {
		return ""
	}
	return string(q)
}

// resumeOn has the launcher of d resume the old queue, and returns the text to print
// about the queue.
func (o *queueOptions) resumeOn(d place.Dir) (string, error) {
	if o.old.from == "" {
		return "", nil
	}
	c, err := client.DialDir(d, cli.Build)
	if err != nil {
		return "", err
	}
	defer c.Close()
	speak := time.AfterFunc(cli.SpeakLate, func() { ui.Say("writing the records of the queue of " + o.resume) })
	defer speak.Stop()
	var info wire.ResumeInfo
	if err = cli.Ask(c, resumeWait, &info, wire.VerbResume, string(o.old.from)); err != nil {
		return "", err
	}
	if old := o.old.from.Instance(); old != d.Instance { // the old instance has ended
		leaveStale(d.Base, old)
		if home, err := place.HomeOf(old); err == nil {
			_ = home.Remove()
		}
	}
	var warns ui.Fold
	for _, r := range info.Refused {
		warns.Warn(fmt.Sprintf("job %d is not resumed: %s", r.Job, r.Err.Error()))
	}
	for _, id := range info.Broken {
		warns.Warn(fmt.Sprintf("job %d is not resumed: too little of its queue can be read", id))
	}
	for _, id := range info.Open {
		ui.Say(fmt.Sprintf("job %d is still open: filch close %d ends adding tasks", id, id))
	}
	for _, a := range info.Anew {
		warns.Warn(fmt.Sprintf("workflow %d starts from the beginning, with %s that had ended: their files were on nodes that are gone (filch workflow run --in-place leaves files in the shared folder)", a.Job, filch.Plural(int(a.Tasks), "task")))
	}
	warns.Flush()
	if info.Lines+info.Files > 0 {
		ui.Warn(fmt.Sprintf("%s of the queue of %s cannot be read and %s left out: %s", damageText(info), o.resume, wasWere(info.Lines+info.Files), ui.Clean(info.First)))
	}
	if info.Jobs == 0 {
		return "no task in the queue of " + o.resume + " was left to run", nil
	}
	text := fmt.Sprintf("%s of %s: %s done, %d resumed", filch.Plural(info.Jobs, "job"), o.resume, filch.Plural(int(info.Tally.Done-info.Tally.Lost), "task"), info.Tally.Left)
	if info.Tally.Lost > 0 {
		text += fmt.Sprintf(", %d lost (--once tasks that had started)", info.Tally.Lost)
	}
	return text, nil
}

func damageText(i wire.ResumeInfo) string {
	var parts []string
	if i.Lines > 0 {
		parts = append(parts, filch.Plural(i.Lines, "line"))
	}
	if i.Files > 0 {
		parts = append(parts, filch.Plural(i.Files, "file"))
	}
	return strings.Join(parts, " and ")
}

func wasWere(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// leaveQueues removes the queues of an ended instance that hold no unfinished
// task, and prints how to resume the others. If nodes of another allocation still
// work on a queue, the queue is left to those nodes.
func leaveQueues(home place.Home) {
	list, _ := filepath.Glob(filepath.Join(home.Queues(), "*"))
	for _, name := range list {
		q := mirror.Queue(name)
		if q.Next() != "" || alive(q, home) != "" {
			continue // a request for this queue is led to the next
		}
		jobs, tasks, known := leftIn(q)
		switch {
		case known && jobs == 0:
			q.Remove()
		case known:
			have := "have"
			if tasks == 1 {
				have = "has"
			}
			ui.Say(fmt.Sprintf("%s of %s %s not ended; filch up --resume %s continues", filch.Plural(tasks, "task"), filch.Plural(jobs, "job"), have, q.Instance()))
		default:
			ui.Say(fmt.Sprintf("the queue of %s is kept; filch up --resume %s continues with the queue", q.Instance(), q.Instance()))
		}
	}
	_ = os.Remove(home.Queues()) // fails while a queue is left
	_ = os.Remove(string(home))
}

// leftIn counts the unfinished jobs and tasks; known is false for a queue larger
// than pruneBytes.
func leftIn(q mirror.Queue) (jobs, tasks int, known bool) {
	size := int64(0)
	files, _ := filepath.Glob(filepath.Join(string(q), "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	if size > pruneBytes {
		return 0, 0, false
	}
	left, _ := q.Read()
	for _, r := range left.Jobs() {
		if !r.Whole() || r.Job.Finished() {
			continue
		}
		if t := r.Settle(); t.Left > 0 || !r.Job.Closed {
			jobs++
			tasks += int(t.Left)
		}
	}
	return jobs, tasks, true
}

// mirrors reports whether the queue of the instance is kept: in a batch job,
// because the next batch job may resume the queue, unless an option decides.
func (n *coordinator) mirrors() bool {
	switch {
	case n.invited != nil:
		return false // the first allocation decided
	case n.chosen:
		return n.mirror
	}
	return n.old.from != "" || n.given.Kind != alloc.Hosts
}

// warnApart names the nodes that cannot mirror their part of the queue.
func (n *coordinator) warnApart() {
	var names []filch.NodeName
	for _, node := range n.given.Nodes {
		if n.up[node.Name].Apart {
			names = append(names, filch.NodeName(node.Name))
		}
	}
	if len(names) > 0 {
		ui.Warn(fmt.Sprintf("%s does not have the folder %s: filch up --resume may repeat tasks that end there", spec.FormatHosts(names), n.home.Queues()))
	}
}

// resumeQueue resumes the queue of --resume.
func (n *coordinator) resumeQueue() error {
	if n.old.from == "" {
		return nil
	}
	base, err := place.Base()
	if err == nil {
		n.went, err = n.resumeOn(place.Dir{Base: base, Instance: n.instance, Node: n.local})
	}
	return err
}
