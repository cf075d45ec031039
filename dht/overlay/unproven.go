package overlay

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// The most connections that may be unproven at a time. Each costs a descriptor
// and a goroutine, some 10 KB together.
const (
	// maxUnproven is for all sources together. Where descriptors are few, a
	// quarter of them is.
	maxUnproven = 2048
	// sourceShare is the part of those that one source may have. A launcher
	// proves itself within the time in which so many others come from its own
	// address: 1,024 at 500 a second are two seconds.
	sourceShare = 2
	// descriptorShare is the part of the process's descriptors that strangers
	// may have.
	descriptorShare = 4
)

// unproven holds the connections that came in and have proved nothing yet, by
// their source. One that is over the limit costs the oldest its place, as
// launchers prove themselves at once; refusing the newest would let strangers
// who say nothing keep launchers out.
type unproven struct {
	most int

	mu      sync.Mutex
	closed  bool
	total   int
	sources map[netip.Prefix]*list.List // of net.Conn, oldest first; none is empty
}

// place is a connection's among the unproven.
type place struct {
	source netip.Prefix
	of     *list.List
	at     *list.Element
}

func newUnproven() *unproven {
	u := &unproven{most: maxUnproven, sources: map[netip.Prefix]*list.List{}}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil {
		u.most = int(max(sourceShare, min(uint64(u.most), l.Cur/descriptorShare)))
	}
	return u
}

// sourceOf is an address of IPv4, and a network of IPv6: whoever has one address
// of that has 2^64.
func sourceOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.WithZone("").Prefix(bits)
	return p
}

// add closes the oldest where there is no room. It returns nil, and has closed
// the connection, when all is closed.
func (u *unproven) add(c net.Conn) *place {
	src := sourceOf(c.RemoteAddr())
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		c.Close()
		return nil
	}
	var out net.Conn
	of := u.sources[src]
	switch {
	case of != nil && of.Len() >= u.most/sourceShare:
		out = u.drop(src)
	case u.total >= u.most:
		out = u.drop(u.fullest())
	}
	if of = u.sources[src]; of == nil { // that may have been its last
		of = list.New()
		u.sources[src] = of
	}
	p := &place{source: src, of: of, at: of.PushBack(c)}
	u.total++
	u.mu.Unlock()
	if out != nil {
		out.Close()
	}
	return p
}

// remove forgets a connection, unless it was dropped.
func (u *unproven) remove(p *place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.take(p.source, p.of, p.at)
}

// spare closes the oldest of the fullest source, for its descriptor.
func (u *unproven) spare() {
	u.mu.Lock()
	var out net.Conn
	if u.total > 0 {
		out = u.drop(u.fullest())
	}
	u.mu.Unlock()
	if out != nil {
		out.Close()
	}
}

// close closes all, and those that are added later.
func (u *unproven) close() {
	u.mu.Lock()
	u.closed = true
	var out []net.Conn
	for src, of := range u.sources {
		for of.Len() > 0 {
			out = append(out, of.Front().Value.(net.Conn))
			u.take(src, of, of.Front())
		}
	}
	u.mu.Unlock()
	for _, c := range out {
		c.Close()
	}
}

// drop takes the oldest of a source; the mutex is held, as it is in the next two.
func (u *unproven) drop(src netip.Prefix) net.Conn {
	of := u.sources[src]
	return u.take(src, of, of.Front())
}

func (u *unproven) take(src netip.Prefix, of *list.List, at *list.Element) net.Conn {
	n := of.Len()
	c := of.Remove(at).(net.Conn)
	if of.Len() == n {
		return c // it was taken before
	}
	u.total--
	if of.Len() == 0 {
		delete(u.sources, src)
	}
	return c
}

func (u *unproven) fullest() (most netip.Prefix) {
	n := 0
	for src, of := range u.sources {
		if of.Len() > n {
			most, n = src, of.Len()
		}
	}
	return most
}
