package query

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of reading logs.
const (
	chunkBytes = 1 << 20
	partWait   = 200 * time.Millisecond // for output of a node while others may have some
	maxParts   = 4096                   // nodes whose output one answer joins
)

// logPart returns a part of the output of a detached job on this node, and waits a
// while for new output.
func (sv *Server) logPart(arg func(int) string) (any, error) {
	n, err := strconv.ParseInt(arg(0), 10, 32)
	if err != nil || n <= 0 {
		return nil, filch.Errorf(filch.Invalid, "%q is not a job", arg(0))
	}
	rank, err := strconv.ParseInt(arg(1), 10, 32)
	if err != nil || rank < -1 {
		return nil, filch.Errorf(filch.Invalid, "%q is not a rank", arg(1))
	}
	at, err := strconv.ParseUint(arg(2), 10, 64)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "%q is not a place in the output", arg(2))
	}
	limit, err := strconv.ParseUint(arg(3), 10, 31)
	if err != nil || limit > chunkBytes {
		return nil, filch.Errorf(filch.Invalid, "cannot read %q bytes at once", arg(3))
	}
	return sv.daemon.Routes.ReadLog(filch.JobID(n), filch.Rank(rank), at, int(limit), parseWait(arg(4)))
}

// jobInfo returns the known facts about a job of any node.
func (sv *Server) jobInfo(job filch.JobID) (info launcher.JobInfo, err error) {
	known := false
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { info, known = t.Node.Job(t.Now, job) }); err != nil || known {
		return info, err
	}
	owner, e, _, err := sv.ownerOf(job)
	if err != nil {
		return info, err
	}
	if owner != "" && sv.daemon.Questions.Ask(owner, peers.AskWait, wire.Query{Verb: wire.VerbInfo, Args: []string{job.String()}}, &info) == nil {
		return info, nil
	}
	if e == nil {
		return info, filch.Errorf(filch.Unavailable, "%s, the owner of job %d, does not answer", owner, job)
	}
	return e.Told(), nil
}

// readLogs joins the output of a detached job from its nodes, and waits for more when
// the client follows. Output of one node is in order; output of different nodes has no
// order.
func (sv *Server) readLogs(job filch.JobID, arg func(int) string) (any, error) {
	rank := filch.Rank(-1)
	if s := arg(1); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return nil, filch.Errorf(filch.Invalid, "%q is not a rank", s)
		}
		rank = filch.Rank(n)
	}
	at, err := parsePlaces(arg(2))
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if arg(3) != "" {
		wait = parseWait(arg(3))
	}
	for end := time.Now().Add(wait); ; {
		info, err := sv.jobInfo(job) // before readParts
		switch {
		case err != nil:
			return nil, err
		case !info.Detached:
			return nil, filch.Errorf(filch.NotFound, "no output of job %d is kept: the job was not detached", job)
		case len(info.Nodes)+len(info.Earlier) == 0 && info.Code == nil && wait == 0:
			return nil, filch.Errorf(filch.NotFound, "no output of job %d is kept: the job has not started yet", job)
		}
		began := time.Now()
		c := sv.readParts(&info, rank, at, min(time.Until(end), partWait))
		if len(c.Pieces) > 0 || c.End || !time.Now().Before(end) {
			return c, nil
		}
		if time.Since(began) < dataplane.LogPoll && !sv.in.Pause(partWait, end) { // no node could wait
			return c, nil
		}
	}
}

// readParts asks the nodes of a job for output, from the offsets in at on, and advances
// the offsets.
func (sv *Server) readParts(info *launcher.JobInfo, rank filch.Rank, at places, wait time.Duration) wire.LogChunk {
	var nodes []filch.NodeName
	for _, n := range slices.Concat(info.Earlier, info.Nodes) {
		if !slices.Contains(nodes, n) && len(nodes) < maxParts {
			nodes = append(nodes, n)
		}
	}
	parts, errs := make([]wire.LogPart, len(nodes)), make([]error, len(nodes))
	limit := max(chunkBytes/max(len(nodes), 1), 4<<10)
	tokens := make(chan struct{}, peers.FanOut)
	var wg sync.WaitGroup
	for i, n := range nodes {
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			switch {
			case n == sv.in.Self:
				parts[i], errs[i] = sv.daemon.Routes.ReadLog(info.ID, rank, at[n], limit, max(wait, 0))
			case !sv.daemon.Nodes.Live(n):
				errs[i] = filch.Errorf(filch.NodeLost, "it is dead")
			default:
				errs[i] = sv.daemon.Questions.Ask(n, max(wait, 0)+peers.AskWait, wire.Query{Verb: wire.VerbLog, Args: []string{
					info.ID.String(), strconv.Itoa(int(rank)), strconv.FormatUint(at[n], 10), strconv.Itoa(limit), max(wait, 0).String(),
				}}, &parts[i])
			}
		})
	}
	wg.Wait()
	c := wire.LogChunk{Pieces: []wire.LogPiece{}, End: info.Code != nil}
	for i, n := range nodes {
		p := &parts[i]
		if errs[i] != nil || p.Absent && info.Code != nil {
			c.Missing = append(c.Missing, n)
			continue
		}
		c.Pieces = append(c.Pieces, p.Pieces...)
		c.Lost += p.Lost
		at[n] = p.Next
		c.End = c.End && p.Done && len(p.Pieces) == 0
	}
	c.Next = at.String()
	return c
}

// places holds how far a client has read the output of each node.
type places map[filch.NodeName]uint64

func (p places) String() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(p)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(n) + "=" + strconv.FormatUint(p[n], 10))
	}
	return b.String()
}

func parsePlaces(s string) (places, error) {
	p := places{}
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		n, digits, ok := strings.Cut(part, "=")
		at, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil || len(p) >= maxParts {
			return nil, filch.Errorf(filch.Invalid, "%q is not a place in the output", clipText(s))
		}
		p[filch.NodeName(n)] = at
	}
	return p, nil
}

// clipText shortens a text that an error repeats.
func clipText(s string) string { return s[:min(len(s), 60)] }
