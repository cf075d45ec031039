package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// session is a client's stay with a run, from the submission to its end. One
// goroutine reads from the launcher and writes what the ranks print; one
// passes on standard input; one hears signals, so that Ctrl-C works while a
// write waits for a stopped terminal.
type session struct {
	spec *spec.Run
	cwd  string
	run  *client.Run
	pump *pump
	sink *sink
	undo func() // restores the terminal; nil when there is nothing to restore

	mu    sync.Mutex // guards what follows
	job   filch.JobID
	size  int32
	begun bool                 // ranks run: they have printed something, or all were started
	nodes []launcher.NodeRanks // once started
	piped bool                 // a reader of our output went away
}

// loop takes what the launcher says until the job has ended.
func (s *session) loop() int {
	for {
		event, err := s.run.Next()
		if err != nil {
			return fail(err)
		}
		switch e := event.(type) {
		case wire.Output:
			s.print(e)
		case wire.Place:
			s.pump.welcome(e)
		case wire.Warn:
			if !s.spec.Client.Quiet {
				warn(e.Text)
			}
		case launcher.Accepted:
			if err := s.accepted(e); err != nil {
				s.run.Close()
				return fail(err)
			}
		case launcher.StillWaiting:
			s.waits(e)
		case launcher.Started:
			s.started(e)
		case launcher.Ending:
			if s.spec.Client.Verbose > 0 {
				say(e.Text)
			}
		case launcher.Refused:
			if manner.crowded != nil && e.Err.Kind == filch.NoFit && strings.Contains(e.Err.Hint, "that fits: -n ") {
				s.run.Close()
				s.restore()
				return manner.crowded(&e.Err)
			}
			complain(&e.Err)
			return exitCode(launcher.CauseNone, e.Code)
		case launcher.Ended:
			return s.ended(e)
		}
	}
}

// waits says what a job waits for; it may be its number.
func (s *session) waits(e launcher.StillWaiting) {
	switch {
	case s.spec.Client.Quiet:
	case e.Job == 0:
		say(e.Text)
	default:
		say(fmt.Sprintf("job %d waits: %s", e.Job, e.Text))
	}
}

func (s *session) accepted(e launcher.Accepted) error {
	size := e.Size
	if size == 0 {
		size = s.spec.Request.Shape.Ranks
	}
	s.mu.Lock()
	s.job, s.size = e.Job, size
	s.mu.Unlock()
	if s.spec.Client.Verbose > 0 {
		say(fmt.Sprintf("job %d: %s", e.Job, spec.FormatShape(s.spec.Request.Shape)))
	}
	sink, err := openSink(s.spec, e.Job, s.cwd)
	if err != nil {
		return err
	}
	sink.width = output.Width(size)
	s.sink = sink
	return nil
}

func (s *session) started(e launcher.Started) {
	s.mu.Lock()
	s.begun, s.nodes, s.size = true, e.Nodes, e.Size
	s.mu.Unlock()
	if s.sink != nil {
		s.sink.width = output.Width(e.Size)
	}
	if s.spec.Client.Verbose > 0 {
		say(fmt.Sprintf("job %d: %s on %s after %s", e.Job, plural(int(e.Size), "rank"), nodeNames(e.Nodes), shortTime(e.Waited)))
		for _, n := range e.Nodes {
			if s.spec.Client.Verbose > 1 {
				say(fmt.Sprintf("job %d: %s: ranks %s", e.Job, n.Node, spec.FormatRanks(n.Ranks)))
			}
		}
		if near := neighbors(s.spec.Client.Instance, e.Nodes); len(near) > 0 {
			say(fmt.Sprintf("job %d: %d of its nodes are of one machine, and their ranks talk over TCP (on one node, -N 1, they have shared memory)", e.Job, len(near)))
		}
	}
}

// print writes a piece of output. When its reader has gone the job is ended,
// as SIGPIPE would end a program that writes for itself.
func (s *session) print(o wire.Output) {
	if s.sink == nil || s.piped {
		return
	}
	if !s.begun { // only this goroutine sets it
		s.mu.Lock()
		s.begun = true
		s.mu.Unlock()
	}
	err := s.sink.write(o)
	if err == nil {
		return
	}
	s.piped = true
	if !isBrokenPipe(err) {
		complain(filch.Errorf(filch.Invalid, "cannot write the output: %s", err.Error()))
	}
	_ = s.run.Cancel(sigTERM)
}

// ended says how the job ended, if not well, and gives the exit code. The
// last line names the first cause.
func (s *session) ended(e launcher.Ended) int {
	if s.sink != nil {
		if err := s.sink.close(); err != nil {
			return fail(err)
		}
	}
	if s.piped {
		return filch.ExitSignalBase + int(sigPIPE)
	}
	if e.Code == 0 && e.Bad == 0 {
		return 0
	}
	s.restore()
	if manner.report != nil {
		manner.report(s, e)
	} else {
		s.report(e)
	}
	return exitCode(e.Cause.Kind, e.Code)
}

// exitCode is the code of an end in the manner of this process.
func exitCode(kind launcher.CauseKind, code int32) int {
	if manner.code != nil {
		return manner.code(kind, code)
	}
	return int(code)
}

// report prints the ranks that ended badly, grouped as srun does, and the
// cause last. What we were asked to do ourselves is no error.
func (s *session) report(e launcher.Ended) {
	if len(e.Ranks) > 1 || e.Cause.Rank < 0 && len(e.Ranks) > 0 {
		for _, line := range s.groups(e) {
			say("error: " + line)
		}
	}
	if e.Cause.Text != "" {
		say("error: " + e.Cause.Text)
	}
	if h := e.Cause.Hint; h != "" {
		hint(h)
	} else if h := causeHint(e.Cause.Kind, s.spec); h != "" {
		hint(h)
	}
}

// endGroup is the ranks that ended in the same way.
type endGroup struct {
	text  string
	ranks string // folded, like 3,5-7
	nodes string
	count int
}

// groups are the bad ends as lines like "ranks 3,5 on n[1-2]: exited with code 7".
func (s *session) groups(e launcher.Ended) []string {
	var lines []string
	for _, g := range s.folded(e, endText) {
		word := "rank"
		if g.count > 1 {
			word = "ranks"
		}
		lines = append(lines, word+" "+g.ranks+" on "+g.nodes+": "+g.text)
	}
	if more := int(e.Bad) - len(e.Ranks); more > 0 && len(e.Ranks) == launcher.MaxRankEnds {
		lines = append(lines, fmt.Sprintf("%d more ranks ended badly", more))
	}
	return lines
}

// folded are the bad ends, those of the same words together.
func (s *session) folded(e launcher.Ended, words func(launcher.RankEnd) string) []endGroup {
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
	for _, r := range e.Ranks {
		g := find(words(r))
		if int(r.Rank) < len(g.ranks) {
			g.ranks[r.Rank] = true
			g.nodes[s.nodeOf(r.Rank)] = true
		}
	}
	var folded []endGroup
	for _, g := range groups {
		if ranks, n := foldRanks(g.ranks); n > 0 {
			folded = append(folded, endGroup{text: g.text, ranks: ranks, nodes: foldNodes(g.nodes), count: n})
		}
	}
	return folded
}

func (s *session) nodeOf(r filch.Rank) filch.NodeName {
	for _, n := range s.nodes {
		for _, span := range n.Ranks {
			if r >= span.First && r < span.First+filch.Rank(span.Count) {
				return n.Node
			}
		}
	}
	return "?"
}

func foldRanks(ranks []bool) (string, int) {
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

// endText says how a rank ended, in the words that srun's users look for.
func endText(r launcher.RankEnd) string {
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

// causeHint is what to do about a first cause; "" when there is nothing to say.
func causeHint(k launcher.CauseKind, r *spec.Run) string {
	switch k {
	case launcher.CauseNotFound:
		if r.Client.Bcast == "" && len(r.Argv) > 0 && strings.ContainsRune(r.Argv[0], '/') {
			return "is it on every node? filch run --bcast copies it there"
		}
	case launcher.CauseOOM:
		return "ask for more with --mem"
	case launcher.CauseTimeLimit:
		return "give it longer with -t"
	}
	return ""
}

// restore gives the terminal back; more than once is harmless.
func (s *session) restore() {
	s.mu.Lock()
	undo := s.undo
	s.undo = nil
	s.mu.Unlock()
	if undo != nil {
		undo()
	}
}

// leave ends the process at once, with the terminal as it was.
func (s *session) leave(code int) {
	s.restore()
	os.Exit(code)
}
