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
			if err := x.finder.Refresh(limited(t)); err != nil {
				t.Fatalf("refresh of %d: %v", i, err)
			}
		}
		all = append(all, x)
	}
	for _, key := range []string{"alpha", "beta", "gamma"} {
		for _, at := range []int{0, n / 2, n - 1} {
			want := nearest(t, all, key, 3)
			networktest.Eventually(t, "the lookup of "+key, func() bool {
				got, err := all[at].finder.FindClosest(limited(t), key, 3)
				return err == nil && slices.Equal(ids(got), want)
			})
		}
	}
	for _, x := range all {
		networktest.Eventually(t, "connections are bounded", func() bool { return x.Stats().Conns <= 16 })
	}
	got, err := all[n-1].finder.FindClosest(limited(t), "alpha", 1)
	if err != nil || len(got) != 1 || len(got[0].Addrs) == 0 {
		t.Fatalf("got %v, %v, want a contact with an address", got, err)
	}
	who, err := all[n-1].Dial(limited(t), got[0].Addrs[0])
	if id, _ := all[0].PeerID(who); err != nil || id.String() != got[0].ID {
		t.Errorf("at %v answers %s, %v", got[0], who, err)
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
		x.finder.Follow(x.Host, members.Event{Kind: members.EventDead, Member: members.Member{Name: who}})
	}
	want := nearest(t, rest, "alpha", 3)
	networktest.Eventually(t, "the lookup without the dead node", func() bool {
		got, err := rest[0].finder.FindClosest(limited(t), "alpha", 3)
		return err == nil && slices.Equal(ids(got), want)
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

// nearest works out what a lookup must find.
func nearest(t *testing.T, all []node, key string, n int) []string {
	t.Helper()
	var ps []peer.ID
	for _, x := range all {
		id, err := x.PeerID(x.Name())
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, id)
	}
	var out []string
	for _, p := range kb.SortClosestPeers(ps, kb.ConvertKey(key))[:n] {
		out = append(out, p.String())
	}
	return out
}

func ids(cs []kad.Contact) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.ID)
	}
	return out
}

func TestFinderDetached(t *testing.T) {
	var f kad.Finder
	if _, err := f.FindClosest(t.Context(), "x", 1); err == nil {
		t.Error("got no error from a finder without a host, want one")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
