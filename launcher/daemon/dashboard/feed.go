package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
)

// lookEvery is the time between two looks at the nodes while something happens.
const lookEvery = time.Second

// feed takes looks while a browser is there: each lookEvery, and after a change while nothing
// happens. A browser that falls behind misses looks: the feed keeps one look, which all browsers
// share.
type feed struct {
	look func() (view func(rests bool) ([]byte, error), quiet bool, err error)
	rest func() (await func(ctx context.Context))
	came chan struct{} // a browser came to an empty feed

	mu    sync.Mutex // guards seats, last and looks
	seats map[*seat]struct{}
	last  []byte // the event of the last look; no browser changes the bytes
	looks int
}

// seat is a browser.
type seat struct {
	news chan struct{} // there is a look that the browser has not got
}

func newFeed(look func() (func(bool) ([]byte, error), bool, error), rest func() func(context.Context)) *feed {
	return &feed{look: look, rest: rest, came: make(chan struct{}, 1), seats: map[*seat]struct{}{}}
}

// join adds a browser.
func (f *feed) join() (*seat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.seats); n >= maxBrowsers {
		return nil, filch.Errorf(filch.Busy, "%d pages of this dashboard are open already; close one", n)
	}
	s := &seat{news: make(chan struct{}, 1)}
	if len(f.seats) == 0 {
		f.last = nil // old
	} else if f.last != nil {
		s.news <- struct{}{}
	}
	f.seats[s] = struct{}{}
	select {
	case f.came <- struct{}{}:
	default:
	}
	return s, nil
}

func (f *feed) leave(s *seat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seats, s)
}

func (f *feed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seats)
}

// event is the last look.
func (f *feed) event() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// run looks until ctx ends, at most once in lookEvery.
func (f *feed) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	quiet := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for f.count() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-f.came:
			}
		}
		at := time.Now()
		if !quiet {
			quiet = f.publish(false)
			timer.Reset(lookEvery)
			continue
		}
		// The wait begins before the look: else what happens in between would not be shown.
		await := f.rest()
		if f.publish(true) {
			await(ctx)
		}
		quiet = false
		timer.Reset(max(lookEvery-time.Since(at), 0))
	}
}

// publish takes a look, and tells the browsers; rests says that the feed pauses after a quiet
// look.
func (f *feed) publish(rests bool) (quiet bool) {
	encode, quiet, err := f.look()
	var view []byte
	if err == nil {
		view, err = encode(rests && quiet)
	}
	kind := "view"
	if err != nil {
		kind = "trouble"
		view, _ = json.Marshal(err.Error()) // a text always encodes
	}
	event := eventOf(kind, view)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = event
	f.looks++
	for s := range f.seats { // in any order: each has its own channel
		select {
		case s.news <- struct{}{}:
		default: // the browser has not read the look before
		}
	}
	return quiet && err == nil
}

// eventOf is a server-sent event: JSON has no line end.
func eventOf(kind string, data []byte) []byte {
	return bytes.Join([][]byte{[]byte("event: " + kind + "\ndata: "), data, []byte("\n\n")}, nil)
}
