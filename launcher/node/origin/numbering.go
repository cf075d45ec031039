package origin

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
)

// unnumbered is a request waiting for an id.
type unnumbered struct {
	client launcher.ClientID
	req    launcher.Request
	unixNS int64
	since  time.Duration
}

// maxUnnumbered bounds the requests waiting for an id, and those waiting for keepers.
const maxUnnumbered = 4096

// numbering holds the requests of clients until there is an id for each. No request waits
// while an id is available.
type numbering struct {
	*joblist
	records *records.Records
	ranks   ownRanks
	origin  accepter

	waiting []unnumbered
	early   []unnumbered  // of clients inside of runs whose keepers may still be found
	say     time.Duration // when to tell the clients why they wait, or to refuse some
}

// unnumbered enqueues a request until there is an id for the request.
func (b *numbering) unnumbered(t *local.Turn, u unnumbered) {
	if len(b.waiting) >= maxUnnumbered {
		err := filch.Errorf(filch.Busy, "%d requests wait for a job number already", len(b.waiting))
		t.Reply(u.client, launcher.Refused{Err: *err, Code: filch.ExitOurs})
		return
	}
	b.waiting = append(b.waiting, u)
	b.say = min(b.say, t.Now+SayAfter, u.givesUp())
	b.records.FetchBlock(t)
}

// givesUp is when a request that has no id is refused.
func (u *unnumbered) givesUp() time.Duration {
	if u.req.Patient > 0 && !u.req.Detach {
		return u.since + u.req.Patient
	}
	return filch.Never
}

// accepter judges a request, and makes a job of the request.
type accepter interface {
	submit(t *local.Turn, client launcher.ClientID, r launcher.Request, unixNS int64, since time.Duration)
}

// OnKeepersFound submits the requests that came before the keepers of the launcher before
// were found.
func (b *numbering) OnKeepersFound(t *local.Turn) {
	early := b.early
	b.early = nil
	for _, u := range early {
		b.origin.submit(t, u.client, u.req, u.unixNS, u.since)
	}
}

// OnIDs gives ids to the waiting requests.
func (b *numbering) OnIDs(t *local.Turn) {
	for len(b.waiting) > 0 && b.records.HaveID() {
		u := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.origin.submit(t, u.client, u.req, u.unixNS, u.since)
	}
	if len(b.waiting) == 0 {
		b.waiting, b.say = nil, filch.Never
	}
	b.records.FetchBlock(t)
}

// TickNumbering tells the waiting clients why they wait, and refuses those that wait no longer.
func (b *numbering) TickNumbering(t *local.Turn) {
	if b.say > t.Now {
		return
	}
	b.say = t.Now + SayEvery
	why := "no job number can be had: " + b.records.StoreTrouble()
	b.waiting = slices.DeleteFunc(b.waiting, func(u unnumbered) bool {
		if at := u.givesUp(); at > t.Now {
			b.say = min(b.say, at)
			return false
		}
		err := filch.Errorf(filch.Timeout, "cannot start within %s: %s", filch.ShortTime(u.req.Patient), why)
		t.Reply(u.client, launcher.Refused{Err: *err, Code: filch.ExitOurs})
		return true
	})
	for _, u := range b.waiting {
		if t.Now-u.since >= SayAfter {
			t.Reply(u.client, launcher.StillWaiting{Text: why})
		}
	}
}

// ForgetUnnumbered drops the requests of a client that is gone.
func (b *numbering) ForgetUnnumbered(client launcher.ClientID) {
	for _, list := range []*[]unnumbered{&b.waiting, &b.early} {
		*list = slices.DeleteFunc(*list, func(u unnumbered) bool { return u.client == client })
	}
}

// onEarly keeps a request until the keepers are found.
func (b *numbering) onEarly(t *local.Turn, u unnumbered) {
	if len(b.early) >= maxUnnumbered {
		err := filch.Errorf(filch.Busy, "%d requests wait for the keepers of %s already", len(b.early), b.Cfg.Name)
		t.Reply(u.client, launcher.Refused{Err: *err, Code: filch.ExitOurs})
		return
	}
	b.early = append(b.early, u)
}

// comesEarly reports whether a request is of a client inside of a run whose keeper this
// launcher, which was started again, may still find here.
func (b *numbering) comesEarly(r *launcher.Request) bool {
	switch {
	case b.Opens == filch.Never || r.Task != 0 || mutantSpawnEarly:
		return false
	case r.Spawner != 0:
		return b.ranks.LaunchIn(r.Spawner) == nil
	}
	return r.Parent != 0 && b.ranks.LaunchIn(r.Parent) == nil && b.jobs[r.Parent] == nil
}

// called is the job of an earlier request for the same call of a rank; 0: none.
func (b *numbering) called(r *launcher.Request) filch.JobID {
	if r.Spawner == 0 || r.Call == 0 || mutantSpawnTwice {
		return 0
	}
	for id, j := range b.jobs { // any order: at most one
		if j.req.Spawner == r.Spawner && j.req.Call == r.Call {
			return id
		}
	}
	return 0
}
