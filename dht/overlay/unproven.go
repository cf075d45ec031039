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

// unproven holds the connections that came in and have proved nothing yet. One
// that is over the limit of its source costs the oldest of that its place, and
// one that is over the limit of all the oldest of all, as launchers prove
// themselves at once; refusing the newest would let strangers who say nothing
// keep launchers out.
type unproven struct {
	most int

	mu      sync.Mutex
	closed  bool
	all     list.List // of *place, oldest first, as is each of the sources
	sources map[netip.Prefix]*list.List
}

// place is a connection's among the unproven.
type place struct {
	conn      net.Conn
	source    netip.Prefix
	in, inAll *list.Element
	taken     bool
}

func newUnproven() *unproven {
	u := &unproven{most: maxUnproven, sources: map[netip.Prefix]*list.List{}}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil {
		u.most = int(max(sourceShare, min(uint64(u.most), l.Cur/descriptorShare)))
	}
	return u
}

// sourceOf is an address of IPv4, and a network of IPv6, of which whoever has one
// address has 2^64. The loopback is one source, too: everybody has all of it.
func sourceOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap()
	bits := 64
	switch {
	case ip.Is4() && ip.IsLoopback():
		bits = 8
	case ip.Is4():
		bits = 32
	}
	p, _ := ip.WithZone("").Prefix(bits)
	return p
}

// add closes the oldest where there is no room. It returns nil, and has closed
// the connection, when all is closed.
func (u *unproven) add(c net.Conn) *place {
	p := &place{conn: c, source: sourceOf(c.RemoteAddr())}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		c.Close()
		return nil
	}
	var old *place
	if of := u.sources[p.source]; of != nil && of.Len() >= u.most/sourceShare {
		old = of.Front().Value.(*place)
	} else if u.all.Len() >= u.most {
		old = u.all.Front().Value.(*place)
	}
	u.take(old)
	of := u.sources[p.source]
	if of == nil {
		of = list.New()
		u.sources[p.source] = of
	}
	p.in, p.inAll = of.PushBack(p), u.all.PushBack(p)
	u.mu.Unlock()
	old.end()
	return p
}

// remove forgets a connection, unless it was dropped.
func (u *unproven) remove(p *place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.take(p)
}

// spare closes the oldest, for its descriptor.
func (u *unproven) spare() {
	u.mu.Lock()
	var old *place
	if e := u.all.Front(); e != nil {
		old = e.Value.(*place)
	}
	u.take(old)
	u.mu.Unlock()
	old.end()
}

// close closes all, and those that are added later.
func (u *unproven) close() {
	u.mu.Lock()
	u.closed = true
	var all []*place
	for e := u.all.Front(); e != nil; e = u.all.Front() {
		p := e.Value.(*place)
		u.take(p)
		all = append(all, p)
	}
	u.mu.Unlock()
	for _, p := range all {
		p.end()
	}
}

// take takes a place, if any, out of both lists; the mutex is held.
func (u *unproven) take(p *place) {
	if p == nil || p.taken {
		return
	}
	p.taken = true
	u.all.Remove(p.inAll)
	of := u.sources[p.source]
	if of.Remove(p.in); of.Len() == 0 {
		delete(u.sources, p.source)
	}
}

func (p *place) end() {
	if p != nil {
		p.conn.Close()
	}
}
