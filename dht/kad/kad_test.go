package kad_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/kad"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type node struct {
	*overlay.Host
	finder *kad.Finder
}

func newNode(t *testing.T, i int) node {
	t.Helper()
	n := node{finder: &kad.Finder{}}
	h, err := overlay.NewHost(overlay.Config{
		Instance: "i", Secret: []byte("a secret of thirty-two bytes...."), Name: name(i), Incarnation: 1,
		Listen: "127.0.0.1:0", Attach: n.finder.Attach, Detach: n.finder.Close, MaxConns: 16,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Host = h
	t.Cleanup(func() { h.Close() })
	return n
}

func name(i int) filch.NodeName { return filch.NodeName(fmt.Sprintf("n%02d", i)) }

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), networktest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// With no member list at all, nodes that each dialed one other find the nodes
// nearest to any key; the dead drop out; connections stay bounded.
func TestFinderWithoutAMemberList(t *testing.T) {
	const n = 20
	var all []node
	for i := range n {
		x := newNode(t, i)
		if i > 0 {
			// Every node knows one earlier node and nothing else.
			if _, err := x.Dial(limited(t), all[(i-1)/2].Addr()); err != nil {
				t.Fatalf("dial of %d: %v", i, err)
			}
			networktest.Eventually(t, "the seed is in the table", func() bool { return x.finder.Size() > 0 })
			if _, err := x.finder.FindNear(limited(t)); err != nil {
				t.Fatalf("lookup by %d of its own id: %v", i, err)
			}
		}
		all = append(all, x)
	}
	for _, key := range []string{"alpha", "beta", "gamma"} {
		for _, at := range []int{0, n / 2, n - 1} {
			want := nearest(t, all, key, 3)
			networktest.Eventually(t, "the lookup of "+key, func() bool {
				got, err := all[at].finder.FindKey(limited(t), key)
				return err == nil && slices.Equal(names(got, 3), want)
			})
		}
	}
	for _, x := range all {
		networktest.Eventually(t, "connections are bounded", func() bool { return x.Stats().Conns <= 16 })
	}
	got, err := all[n-1].finder.FindKey(limited(t), "alpha")
	if err != nil || len(got.Path) == 0 || got.Took <= 0 || got.Asked < len(got.Path) {
		t.Fatalf("got %+v, %v, want a path and a time", got, err)
	}
	who := got.Path[len(got.Path)-1].Node
	if name, err := all[n-1].Dial(limited(t), got.Path[len(got.Path)-1].Addr); err != nil || name != who {
		t.Errorf("at %s answers %s, %v", got.Path[len(got.Path)-1].Addr, name, err)
	}
	for _, sought := range []int{1, n / 2, n - 2} {
		got, err := all[n-1].finder.FindNode(limited(t), name(sought))
		if err != nil || got.Nearest[0].Node != name(sought) || got.Path[len(got.Path)-1].Node != name(sought) {
			t.Errorf("lookup of %s: got %+v, %v", name(sought), got, err)
		}
	}
	if got, err := all[n-1].finder.FindNode(limited(t), "stranger"); err == nil {
		t.Errorf("lookup of a node that is not: got %+v", got)
	}

	var rest []node
	for _, x := range all {
		if x.Name() == who {
			x.Close()
			continue
		}
		rest = append(rest, x)
	}
	for _, x := range rest {
		x.finder.Follow(members.Event{Kind: members.EventDead, Member: members.Member{Name: who}})
	}
	want := nearest(t, rest, "alpha", 3)
	networktest.Eventually(t, "the lookup without the dead node", func() bool {
		got, err := rest[0].finder.FindKey(limited(t), "alpha")
		return err == nil && slices.Equal(names(got, 3), want)
	})
}

// A node that has the secret, answers identify and speaks kademlia, but is not
// admitted, does not enter the table; one that is admitted does.
func TestFinderKnowsTheAdmittedOnly(t *testing.T) {
	victim, evil, friend := newNode(t, 0), newNode(t, 1), newNode(t, 2)
	// Past its own check, evil serves a peer that it has not admitted.
	net := evil.Libp2p().Network()
	net.SetStreamHandler(func(s network.Stream) {
		if p, serve, err := evil.Libp2p().Mux().Negotiate(s); err == nil && s.SetProtocol(p) == nil {
			serve(p, s)
		}
	})
	hooks := overlay.OpenHooks()
	decide := make(chan struct{})
	decided := sync.OnceFunc(func() { close(decide) })
	defer decided()
	hooks.Admit = func(_ context.Context, h overlay.Hello) *overlay.Refusal {
		if h.Name != evil.Name() {
			return nil
		}
		<-decide
		return &overlay.Refusal{Code: overlay.NameTaken, Text: "the name is taken"}
	}
	victim.SetHooks(hooks)
	refused := make(chan error, 1)
	go func() {
		_, err := evil.Dial(limited(t), victim.Addr())
		refused <- err
	}()
	id, err := victim.PeerID(evil.Name())
	if err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "it is known what evil speaks", func() bool {
		known, err := victim.Libp2p().Peerstore().SupportsProtocols(id, "/filch/kad/1.0.0")
		return err == nil && len(known) == 1
	})
	if _, err := friend.Dial(limited(t), victim.Addr()); err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "the friend is in the table", func() bool { return victim.finder.Size() > 0 })
	// Evil was known before the friend, and would be in soon.
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if n := victim.finder.Size(); n != 1 {
			t.Fatalf("the table holds %d nodes, want the friend alone", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	decided()
	if err := <-refused; err == nil {
		t.Error("evil was admitted")
	}
	if n := victim.finder.Size(); n != 1 {
		t.Errorf("after the refusal the table holds %d nodes, want the friend alone", n)
	}
}

// A node whose one contact dies goes on with the nodes that the contact has named.
func TestFinderOutlivesItsContact(t *testing.T) {
	a, b, c, x := newNode(t, 0), newNode(t, 1), newNode(t, 2), newNode(t, 3)
	for _, other := range []node{b, c} {
		if _, err := other.Dial(limited(t), a.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	networktest.Eventually(t, "the contact knows the others", func() bool { return a.finder.Size() == 2 })
	if _, err := x.Dial(limited(t), a.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := x.finder.Prime(limited(t), a.Name()); err != nil {
		t.Fatal(err)
	}
	a.Close()
	got, err := x.finder.FindNear(limited(t))
	found := names(got, len(got.Nearest))
	slices.Sort(found)
	if want := []filch.NodeName{b.Name(), c.Name(), x.Name()}; err != nil || !slices.Equal(found, want) {
		t.Errorf("got %v, %v, want %v", found, err, want)
	}
}

// nearest works out what a lookup must find.
func nearest(t *testing.T, all []node, key string, n int) []filch.NodeName {
	t.Helper()
	ids := map[peer.ID]filch.NodeName{}
	var ps []peer.ID
	for _, x := range all {
		id, err := x.PeerID(x.Name())
		if err != nil {
			t.Fatal(err)
		}
		ps, ids[id] = append(ps, id), x.Name()
	}
	var out []filch.NodeName
	for _, p := range kb.SortClosestPeers(ps, kb.ConvertKey(key))[:n] {
		out = append(out, ids[p])
	}
	return out
}

func names(l overlay.Lookup, n int) []filch.NodeName {
	var out []filch.NodeName
	for _, c := range l.Nearest[:min(n, len(l.Nearest))] {
		out = append(out, c.Node)
	}
	return out
}

func TestFinderDetached(t *testing.T) {
	var f kad.Finder
	if _, err := f.FindKey(t.Context(), "x"); err == nil {
		t.Error("got no error from a finder without a host, want one")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
