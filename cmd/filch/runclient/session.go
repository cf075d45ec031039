package runclient

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/onend"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Session is a client's stay with a run, from the submission to its end. One
// goroutine reads from the launcher and writes the output of the ranks; a second
// passes on standard input; a third receives signals, so that Ctrl-C works while
// a write waits for a stopped terminal.
type Session struct {
	Spec   *spec.Run
	cwd    string
	run    *client.Run
	pump   *pump
	output *ClientOutput
	undo   func()  // restores the terminal; nil when there is nothing to restore
	warns  ui.Fold // of the nodes
	dir    place.Dir
	answer *cli.Answers // from the acceptance on; nil: none

	mu        sync.Mutex // guards the fields below
	job       filch.JobID
	size      int32
	begun     bool                 // ranks run: they have printed something, or all were started
	Nodes     []launcher.NodeRanks // once started
	unwritten int                  // the exit code, since output could not be written; else 0
}

// loop handles the launcher's events until the job has ended.
func (s *Session) loop() int {
	defer s.warns.Flush()
	defer s.unwatch()
	for {
		event, err := s.run.Next()
		if err != nil {
			return codeOf(err, ui.Fail(err))
		}
		if s.answer != nil {
			s.answer.Heard()
		}
		switch e := event.(type) {
		case wire.Output:
			s.print(e)
		case wire.Place:
			s.pump.onCredit(e)
		case wire.Warn:
			if !s.Spec.Client.Quiet {
				s.warns.Warn(e.Text)
			}
		case launcher.Accepted:
			if err := s.accepted(e); err != nil {
				s.run.Close()
				return ui.Refuse(err)
			}
		case launcher.Granted:
			if err := s.granted(e); err != nil {
				s.run.Close()
				return ui.Refuse(err)
			}
		case launcher.StillWaiting:
			s.waits(e)
		case launcher.Started:
			s.started(e)
		case launcher.RankEnds:
			if Dialect.Early != nil && len(s.Nodes) > 0 {
				Dialect.Early(s, e)
			}
		case launcher.Ending:
			if s.Spec.Client.Verbose > 0 {
				ui.Say(e.Text)
			}
		case launcher.Refused:
			if Dialect.Crowded != nil && e.Err.Kind == filch.NoFit && strings.Contains(e.Err.Hint, launcher.MostRanks) {
				s.run.Close()
				s.restore()
				return Dialect.Crowded(&e.Err)
			}
			ui.Complain(&e.Err)
			return exitCode(launcher.CauseNone, e.Code)
		case launcher.Ended:
			return s.ended(e)
		}
	}
}

// unwatch ends the watch for answers of the launcher.
func (s *Session) unwatch() {
	if s.answer != nil {
		s.answer.Stop()
	}
}

// waits prints the reason that a job waits; e.Job is 0 while the job waits for
// its number.
func (s *Session) waits(e launcher.StillWaiting) {
	switch {
	case s.Spec.Client.Quiet:
	case e.Job == 0:
		ui.Say(e.Text)
	default:
		ui.Say(fmt.Sprintf("job %d waits: %s", e.Job, e.Text))
	}
}

func (s *Session) accepted(e launcher.Accepted) error {
	size := e.Size
	if size == 0 {
		size = s.Spec.Request.Shape.Ranks
	}
	s.mu.Lock()
	s.job, s.size = e.Job, size
	s.mu.Unlock()
	onend.Submit(s.run.Another, e.Job, s.Spec.Client.OnEnd)
	s.answer = cli.WatchLauncher(s.dir, e.Job, s.Spec.Client.Quiet, func() { s.leave(exitCode(launcher.CauseNodeLost, filch.ExitNodeLost)) })
	if s.Spec.Client.Verbose > 0 {
		ui.Say(fmt.Sprintf("job %d: %s", e.Job, spec.FormatShape(s.Spec.Request.Shape)))
	}
	if s.Spec.Order.Slurm != nil && s.Spec.Request.Parent != 0 && output.PerStep(s.Spec.Client.Stdout+" "+s.Spec.Client.Stderr) {
		return nil // until the number of the step is known
	}
	return s.openOutput(0)
}

// granted opens the output of a step whose files have the step's number.
func (s *Session) granted(e launcher.Granted) error {
	if s.output != nil {
		return nil
	}
	return s.openOutput(e.Step)
}

func (s *Session) openOutput(step int32) error {
	out, err := openOutput(s.Spec, s.job, step, s.cwd)
	if err != nil {
		return err
	}
	size := s.size
	out.Width = output.Width(size)
	if s.Spec.Client.Fold {
		out.startFold(size)
	}
	s.output = out
	return nil
}

func (s *Session) started(e launcher.Started) {
	s.mu.Lock()
	s.begun, s.Nodes, s.size = true, e.Nodes, e.Size
	s.mu.Unlock()
	if s.output != nil {
		s.output.setSize(e.Size)
	}
	if s.Spec.Client.Verbose > 0 {
		ui.Say(fmt.Sprintf("job %d: %s on %s after %s", e.Job, filch.Plural(int(e.Size), "rank"), nodeNames(e.Nodes), filch.ShortTime(e.Waited)))
		for _, n := range e.Nodes {
			if s.Spec.Client.Verbose > 1 {
				ui.Say(fmt.Sprintf("job %d: %s: ranks %s", e.Job, n.Node, spec.FormatRanks(n.Ranks)))
			}
		}
		if near := cli.Neighbors(s.Spec.Client.Instance, e.Nodes); len(near) > 0 {
			ui.Say(fmt.Sprintf("job %d: %d nodes are on one machine, and ranks of different nodes communicate over TCP (with -N 1, ranks use shared memory)", e.Job, len(near)))
		}
	}
}

// print writes a piece of output. When the reader of the output has gone, print
// ends the job, as SIGPIPE would end a program that writes for itself.
func (s *Session) print(o wire.Output) {
	if s.output == nil || s.unwritten != 0 {
		return
	}
	if !s.begun { // only this goroutine sets begun
		s.mu.Lock()
		s.begun = true
		s.mu.Unlock()
	}
	err := s.output.Write(o)
	if err == nil {
		return
	}
	s.unwritten = filch.ExitSignalBase + int(ui.SIGPIPE)
	if !ui.IsBrokenPipe(err) {
		s.unwritten = filch.ExitOurs
		ui.Complain(filch.Errorf(filch.Invalid, "cannot write the output: %s", ui.Cause(err)))
	}
	_ = s.run.Cancel(ui.SIGTERM)
}

// ended prints how the job ended, if not well, and returns the exit code. The
// last line names the first cause.
func (s *Session) ended(e launcher.Ended) int {
	s.warns.Flush()
	if s.output != nil {
		if err := s.output.close(); err != nil {
			return ui.Fail(err)
		}
	}
	if s.unwritten != 0 {
		return s.unwritten
	}
	if e.Code == 0 && e.Bad == 0 {
		return 0
	}
	s.restore()
	if Dialect.Report != nil {
		Dialect.Report(s, e)
	} else {
		s.report(e)
	}
	return exitCode(e.Cause.Kind, e.Code)
}

// exitCode is the exit code for an end, in the dialect of this process.
func exitCode(kind launcher.CauseKind, code int32) int {
	if Dialect.Code != nil {
		return Dialect.Code(kind, code)
	}
	return int(code)
}

// report prints the ranks that ended badly, grouped as srun does, and the cause
// last. An end that the user asked for is no error.
func (s *Session) report(e launcher.Ended) {
	if len(e.Ranks) > 1 || e.Cause.Rank < 0 && len(e.Ranks) > 0 {
		for _, line := range s.groups(e) {
			ui.Say("error: " + line)
		}
	}
	if e.Cause.Text != "" {
		ui.Say("error: " + e.Cause.Text)
	}
	if h := e.Cause.Hint; h != "" {
		ui.Hint(h)
	} else if h := causeHint(e.Cause.Kind, s.Spec); h != "" {
		ui.Hint(h)
	}
}

// endGroup is the ranks with the same kind of end.
type endGroup struct {
	Text  string
	Ranks string // folded, like 3,5-7
	Nodes string
	Count int
}

// groups are the bad ends as lines like "ranks 3,5 on n[1-2]: exited with code 7".
func (s *Session) groups(e launcher.Ended) []string {
	var lines []string
	for _, g := range s.Folded(e.Ranks, EndText) {
		word := "rank"
		if g.Count > 1 {
			word = "ranks"
		}
		lines = append(lines, word+" "+g.Ranks+" on "+g.Nodes+": "+g.Text)
	}
	if more := int(e.Bad) - len(e.Ranks); more > 0 && len(e.Ranks) == launcher.MaxRankEnds {
		lines = append(lines, fmt.Sprintf("%d more ranks ended badly", more))
	}
	return lines
}

// Folded are the bad ends, grouped by their text.
func (s *Session) Folded(ends []launcher.RankEnd, words func(launcher.RankEnd) string) []endGroup {
	type group struct {
		text  string
		ranks []bool
		nodes map[filch.NodeName]bool
	}
	var groups []*group
	find := func(text string) *group {
		for _, g := range groups {
			if g.text == text {
				return g
			}
		}
		g := &group{text: text, ranks: make([]bool, max(s.size, 1)), nodes: map[filch.NodeName]bool{}}
		groups = append(groups, g)
		return g
	}
	for _, r := range ends {
		g := find(words(r))
		if int(r.Rank) < len(g.ranks) {
			g.ranks[r.Rank] = true
			g.nodes[s.NodeOf(r.Rank)] = true
		}
	}
	var folded []endGroup
	for _, g := range groups {
		if ranks, n := FoldRanks(g.ranks); n > 0 {
			folded = append(folded, endGroup{Text: g.text, Ranks: ranks, Nodes: foldNodes(g.nodes), Count: n})
		}
	}
	return folded
}

// Still is a copy for another goroutine, to fold ends.
func (s *Session) Still() *Session { return &Session{size: s.size, Nodes: s.Nodes} }

func (s *Session) NodeOf(r filch.Rank) filch.NodeName {
	for _, n := range s.Nodes {
		for _, span := range n.Ranks {
			if r >= span.First && r < span.First+filch.Rank(span.Count) {
				return n.Node
			}
		}
	}
	return "?"
}

func FoldRanks(ranks []bool) (string, int) {
	var spans []launcher.Span
	count := 0
	for r, in := range ranks {
		if !in {
			continue
		}
		count++
		if n := len(spans); n > 0 && int(spans[n-1].First)+int(spans[n-1].Count) == r {
			spans[n-1].Count++
		} else {
			spans = append(spans, launcher.Span{First: filch.Rank(r), Count: 1})
		}
	}
	return spec.FormatRanks(spans), count
}

func foldNodes(set map[filch.NodeName]bool) string {
	names := make([]filch.NodeName, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	return spec.FormatHosts(names)
}

func nodeNames(nodes []launcher.NodeRanks) string {
	names := make([]filch.NodeName, len(nodes))
	for i, n := range nodes {
		names[i] = n.Node
	}
	return spec.FormatHosts(names)
}

// EndText is the text of a rank's end, in srun's words.
func EndText(r launcher.RankEnd) string {
	if r.Text != "" {
		return r.Text
	}
	switch r.Kind {
	case launcher.CauseSignal:
		text := "killed by " + spec.SignalName(r.Code)
		if r.Core {
			text += " (core dumped)"
		}
		return text
	case launcher.CauseOOM:
		return "out of memory"
	}
	return fmt.Sprintf("exited with code %d", r.Code)
}

// causeHint is the advice about a first cause; "" when there is none.
func causeHint(k launcher.CauseKind, r *spec.Run) string {
	switch k {
	case launcher.CauseNotFound:
		if r.Client.Bcast == "" && len(r.Argv) > 0 && strings.ContainsRune(r.Argv[0], '/') {
			return "the program may be missing on that node; filch run --bcast copies the program to all nodes"
		}
	case launcher.CauseOOM:
		return "ask for more with --mem"
	case launcher.CauseTimeLimit:
		return "allow more time with " + cmp.Or(Dialect.TimeOption, "-t")
	}
	return ""
}

// restore gives the terminal back; more than once is harmless.
func (s *Session) restore() {
	s.mu.Lock()
	undo := s.undo
	s.undo = nil
	s.mu.Unlock()
	if undo != nil {
		undo()
	}
}

// leave ends the process at once, after restoring the terminal.
func (s *Session) leave(code int) {
	s.restore()
	os.Exit(code)
}

// codeOf is the exit code of a client whose run has no end: as for a lost node if the launcher
// is gone after it took the run, else usual.
func codeOf(err error, usual int) int {
	if ui.KindOf(err) == filch.NodeLost {
		return filch.ExitNodeLost
	}
	return usual
}
