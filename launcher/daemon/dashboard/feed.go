package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
)

// lookEvery is the time between two looks at the nodes.
const lookEvery = time.Second

// feed takes looks while a browser is there. A browser that falls behind misses looks: the
// feed keeps one look, which all browsers share.
type feed struct {
	look func() ([]byte, error)
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

func newFeed(look func() ([]byte, error)) *feed {
	return &feed{look: look, came: make(chan struct{}, 1), seats: map[*seat]struct{}{}}
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

// run looks until ctx ends.
func (f *feed) run(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		for f.count() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-f.came:
			}
		}
		f.publish()
		rest.Reset(lookEvery)
	}
}

// publish takes a look, and tells the browsers.
func (f *feed) publish() {
	view, err := f.look()
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
}

// eventOf is a server-sent event: JSON has no line end.
func eventOf(kind string, data []byte) []byte {
	return bytes.Join([][]byte{[]byte("event: " + kind + "\ndata: "), data, []byte("\n\n")}, nil)
}
