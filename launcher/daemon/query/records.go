package query

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// This file answers queries about jobs of other nodes: the owner answers if reachable,
// else the record of the job does.

// recordWait is how long a query waits for the store.
const recordWait = 3 * time.Second

// waitChunk is how long another node is asked for the end of its own job when the job
// has no record yet.
const waitChunk = time.Second

// watchRenew is how long a watch is trusted before the record is read once more.
const watchRenew = 2 * time.Second

// record reads the record of a job.
func (sv *Server) record(job filch.JobID) (e *launcher.JobEntry, v dht.Version, err error) {
	done := make(chan struct{})
	post := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.FindJob(t.Now, job, recordWait, func(have *launcher.JobEntry, at dht.Version, why *filch.Error) {
			e, v, err = have, at, orNil(why)
			close(done)
		}, t.Out)
	})
	if post != nil {
		return nil, v, post
	}
	if !sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, v, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: the store does not answer", job)
	}
	return e, v, err
}

// ownerOf finds the source of answers for a job of another node: the owner if the
// owner is live, else the record if the job has a record.
func (sv *Server) ownerOf(job filch.JobID) (owner filch.NodeName, e *launcher.JobEntry, v dht.Version, err error) {
	e, v, err = sv.record(job)
	if err == nil {
		if info := e.Told(); info.Code == nil && sv.daemon.Nodes.Live(e.Owner) {
			owner = e.Owner
		}
		return owner, e, v, nil
	}
	// Too young for a record, or the store cannot be asked: another node may know the
	// job.
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbInfo, Args: []string{job.String()}}, func(m peers.Member, _ launcher.JobInfo, bad error) {
		if bad == nil && owner == "" {
			owner = m.Name
		}
	})
	if owner != "" {
		return owner, nil, v, nil
	}
	return "", nil, v, err
}

// aboutRemote answers a query of a local client about a job of another node.
func (sv *Server) aboutRemote(q wire.Query, job filch.JobID, arg func(int) string) (any, error) {
	if q.Verb == wire.VerbWait {
		return sv.waitRemote(job, arg(1))
	}
	owner, e, _, err := sv.ownerOf(job)
	if err != nil {
		return nil, err
	}
	if owner != "" {
		args := append([]string{job.String()}, q.Args[1:]...)
		var v any = new(jsonText)
		if err = sv.daemon.Questions.Ask(owner, peers.AskWait, wire.Query{Verb: q.Verb, Args: args}, v); err == nil {
			return v, nil
		}
		if k := kindOf(err); e == nil || k != filch.Timeout && k != filch.Unavailable && k != filch.NotFound {
			return nil, err
		}
	}
	return sv.byRecord(q, e, arg)
}

// kindOf returns the kind of an error.
func kindOf(err error) filch.Kind {
	var told *filch.Error
	if errors.As(err, &told) {
		return told.Kind
	}
	return filch.Internal
}

// byRecord answers from the record of a job whose owner does not answer.
func (sv *Server) byRecord(q wire.Query, e *launcher.JobEntry, arg func(int) string) (any, error) {
	info := e.Told()
	switch q.Verb {
	case wire.VerbExplain:
		x := launcher.Explanation{Job: info.ID, State: info.State, Phase: "end", Text: info.Cause, Need: info.Ranks}
		if info.Code == nil {
			x.Phase, x.Text = "wait", "its owner "+string(e.Owner)+" does not answer; when the node is dead, another node takes a detached job over"
		}
		return x, nil
	case wire.VerbSignal, wire.VerbRequeue:
		if info.Code != nil {
			return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", info.ID, info.State)
		}
		return nil, filch.Errorf(filch.Unavailable, "cannot %s job %d: its owner %s does not answer", q.Verb, info.ID, e.Owner).
			WithHint("when the owner is dead, another node takes the job over")
	case wire.VerbHold:
		if info.Code != nil {
			return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", info.ID, info.State)
		}
		return nil, filch.Errorf(filch.Unavailable, "cannot hold or release job %d: its owner %s does not answer", info.ID, e.Owner).
			WithHint("when the owner is dead, another node takes the job over")
	case wire.VerbCancel:
		if info.Code != nil {
			return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", info.ID, info.State)
		}
		if arg(3) != "" {
			return nil, noTasks(info.ID)
		}
		return sv.cancelRecord(info.ID, arg(1), arg(2))
	}
	return info, nil
}

// cancelRecord writes a cancel into the record of a job: the node that takes the job
// over ends the job.
func (sv *Server) cancelRecord(job filch.JobID, signal, reason string) (any, error) {
	sig, err := strconv.Atoi(signal)
	if err != nil || sig < 0 || sig > 64 {
		return nil, filch.Errorf(filch.Invalid, "%q is not the number of a signal", signal)
	}
	var info launcher.JobInfo
	done := make(chan struct{})
	if e := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.CancelJob(t.Now, job, int32(sig), cancelledBy(reason), recordWait, func(e *launcher.JobEntry, why *filch.Error) {
			if err = orNil(why); err == nil {
				info = e.Told()
			}
			close(done)
		}, t.Out)
	}); e != nil {
		return nil, e
	}
	if !sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot cancel job %d: the store does not answer", job)
	}
	return info, err
}

// waitRemote waits for the end of a job of another node.
func (sv *Server) waitRemote(job filch.JobID, limit string) (any, error) {
	deadline := time.Now().Add(parseWait(limit))
	for first := true; ; first = false {
		own := false
		if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { _, own = t.Node.Job(t.Now, job) }); err != nil {
			return nil, err
		}
		if own { // this node has taken the job over
			return sv.waitFor(job, time.Until(deadline).String())
		}
		owner, e, v, err := sv.ownerOf(job)
		switch {
		case err != nil && first && kindOf(err) == filch.NotFound:
			return nil, err
		case err != nil: // the home of the record may just have died
			if !sv.in.Pause(waitChunk, deadline) {
				return nil, err
			}
			continue
		case e == nil:
			var info launcher.JobInfo
			wait := min(time.Until(deadline), waitChunk)
			err := sv.daemon.Questions.Ask(owner, wait+peers.AskWait, wire.Query{Verb: wire.VerbWait, Args: []string{job.String(), wait.String()}}, &info)
			if err == nil && (info.Code != nil || time.Now().After(deadline)) {
				return info, nil
			}
			if err != nil && !sv.in.Pause(peers.AskWait, deadline) {
				return nil, err
			}
			continue
		}
		info := e.Told()
		if info.Rows = nil; info.Code != nil || time.Now().After(deadline) {
			return info, nil
		}
		if err := sv.awaitChange(job, v, deadline); err != nil {
			return nil, err
		}
	}
}

// awaitChange waits until the record of a job is newer than v, or the next read of the
// record is due.
func (sv *Server) awaitChange(job filch.JobID, v dht.Version, deadline time.Time) error {
	changed := make(chan struct{}, 1)
	var stop func(time.Duration, *launcher.Outbox)
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		stop = t.Node.WatchRecord(t.Now, launcher.JobKey(job), v, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}, t.Out)
	}); err != nil {
		return err
	}
	defer sv.in.Post(func(t *inputs.Turn) { stop(t.Now, t.Out) })
	timer := time.NewTimer(min(time.Until(deadline), watchRenew))
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-sv.in.Context().Done():
		return sv.in.GoingDown()
	}
}

// listBytes limits the part of an answer that a list of jobs may take.
const listBytes = wire.MaxAnswer / 4 * 3

// fitJobs removes ended jobs from a list, the oldest first, until the list fits into
// room bytes.
func fitJobs(list []launcher.JobInfo, room int) []launcher.JobInfo {
	newest := make([]int, len(list))
	for i := range newest {
		newest[i] = i
	}
	slices.SortStableFunc(newest, func(a, b int) int { return cmp.Compare(list[b].Submit, list[a].Submit) })
	fits := make([]bool, len(list))
	for _, i := range newest {
		b, err := json.Marshal(&list[i])
		room -= len(b) + 1
		fits[i] = err == nil && room >= 0 || list[i].Code == nil
	}
	kept := []launcher.JobInfo{}
	for i := range list {
		if fits[i] {
			kept = append(kept, list[i])
		}
	}
	return kept
}
