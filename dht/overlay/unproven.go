package overlay

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// The maximum number of unproven connections at a time. Each costs a descriptor and
// a goroutine, some 10 KB together.
const (
	// maxUnproven is for all sources together. If descriptors are few, the limit is
	// a quarter of the descriptors.
	maxUnproven = 2048
	// sourceShare divides the limit: one source may have this part. A launcher
	// proves itself before as many other connections arrive from the launcher's own
	// address: 1,024 at 500 a second are two seconds.
	sourceShare = 2
	// descriptorShare divides the process's descriptors: strangers may have this
	// part.
	descriptorShare = 4
)

// unproven holds the incoming connections before their proof. A connection over the
// limit of its source displaces the oldest connection of the source. A connection
// over the limit of all displaces the oldest of all. Launchers prove themselves at
// once; refusing the newest connection instead would let silent strangers keep
// launchers out.
type unproven struct {
	most int

	mu      sync.Mutex
	closed  bool
	all     list.List // of *place, oldest first, as is each list in sources
	sources map[netip.Prefix]*list.List
}

// place is the entry of a connection among the unproven.
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

// sourceOf is an address of IPv4, or a network of IPv6, since the holder of one
// IPv6 address has 2^64. The loopback is one source, too: every local user has all
// of it.
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

// add closes the oldest connection if there is no room. If all is closed, add
// closes c and returns nil.
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

// remove forgets a connection, unless already dropped.
func (u *unproven) remove(p *place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.take(p)
}

// spare closes the oldest connection to free its descriptor.
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

// close closes all connections, including later additions.
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
