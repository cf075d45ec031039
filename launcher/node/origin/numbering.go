package origin

import (
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

// maxUnnumbered bounds the requests waiting for an id.
const maxUnnumbered = 4096

// numbering holds the requests of clients until there is an id for each. No request waits
// while an id is available.
type numbering struct {
	*local.Self
	records *records.Records
	origin  accepter

	waiting []unnumbered
	say     time.Duration // when to tell the clients why they wait
}

// unnumbered enqueues a request until there is an id for the request.
func (b *numbering) unnumbered(t *local.Turn, u unnumbered) {
	if len(b.waiting) >= maxUnnumbered {
		err := filch.Errorf(filch.Busy, "%d requests wait for a job number already", len(b.waiting))
		t.Reply(u.client, launcher.Refused{Err: *err, Code: filch.ExitOurs})
		return
	}
	b.waiting = append(b.waiting, u)
	b.say = min(b.say, t.Now+SayAfter)
	b.records.FetchBlock(t)
}

// accepter makes a job of a numbered request.
type accepter interface {
	accept(t *local.Turn, client launcher.ClientID, r launcher.Request, unixNS int64, since time.Duration)
}

// OnIDs gives ids to the waiting requests.
func (b *numbering) OnIDs(t *local.Turn) {
	for len(b.waiting) > 0 && b.records.HaveID() {
		u := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.origin.accept(t, u.client, u.req, u.unixNS, u.since)
	}
	if len(b.waiting) == 0 {
		b.waiting, b.say = nil, filch.Never
	}
	b.records.FetchBlock(t)
}

// TickNumbering tells the waiting clients why they wait.
func (b *numbering) TickNumbering(t *local.Turn) {
	if b.say > t.Now {
		return
	}
	b.say = t.Now + SayEvery
	for _, u := range b.waiting {
		if t.Now-u.since >= SayAfter {
			t.Reply(u.client, launcher.StillWaiting{Text: "no job number can be had: " + b.records.StoreTrouble()})
		}
	}
}

// ForgetUnnumbered drops the requests of a client that is gone.
func (b *numbering) ForgetUnnumbered(client launcher.ClientID) {
	left := b.waiting[:0]
	for _, u := range b.waiting {
		if u.client != client {
			left = append(left, u)
		}
	}
	b.waiting = left
}
