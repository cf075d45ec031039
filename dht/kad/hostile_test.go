package kad_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

const kadProtocol protocol.ID = "/filch/kad/1.0.0"

// turn makes a node hostile: reply writes the answers to all later questions.
func turn(n node, reply func(s network.Stream, question *pb.Message)) {
	n.Libp2p().SetStreamHandler(kadProtocol, func(s network.Stream) {
		defer s.Close()
		in := bufio.NewReader(s)
		for {
			size, err := binary.ReadUvarint(in)
			if err != nil {
				return
			}
			b := make([]byte, size)
			if _, err := io.ReadFull(in, b); err != nil {
				return
			}
			var m pb.Message
			if proto.Unmarshal(b, &m) == nil {
				reply(s, &m)
			}
		}
	})
}

// send writes an answer that names nodes.
func send(s network.Stream, named ...*pb.Message_Peer) {
	b, err := proto.Marshal(&pb.Message{Type: pb.Message_FIND_NODE, CloserPeers: named})
	if err == nil {
		_, _ = s.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	}
}

// at is a node in an answer, at an address.
func at(t *testing.T, id peer.ID, addr string) *pb.Message_Peer {
	t.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &pb.Message_Peer{Id: []byte(id)}
	b := binary.AppendUvarint(nil, 4) // ip4
	b = append(b, tcp.IP.To4()...)
	b = binary.AppendUvarint(b, 6) // tcp
	b = binary.BigEndian.AppendUint16(b, uint16(tcp.Port))
	p.Addrs = [][]byte{b}
	return p
}

func idOf(t *testing.T, n node) peer.ID {
	t.Helper()
	id, err := n.PeerID(n.Name())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// silence is an address that takes connections and never says a word.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	return l.Addr().String()
}

// junk makes n ids that no node has, among the nearest to a key of many tries.
func junk(n int, key string) []peer.ID {
	var all []peer.ID
	for i := range 50 * n {
		all = append(all, peer.ID(fmt.Sprintf("junk %d for %x", i, key)))
	}
	return kb.SortClosestPeers(all, kb.ConvertKey(key))[:n]
}

// A lookup leads to a node past a member with hostile answers.
func TestFindNodePastAHostileMember(t *testing.T) {
	cases := map[string]func(t *testing.T, evil, asker, friend, sought node) func(network.Stream, *pb.Message){
		"never answers": func(*testing.T, node, node, node, node) func(network.Stream, *pb.Message) {
			return func(network.Stream, *pb.Message) {}
		},
		"answers a byte, and no more": func(*testing.T, node, node, node, node) func(network.Stream, *pb.Message) {
			return func(s network.Stream, _ *pb.Message) { _, _ = s.Write([]byte{0xff}) }
		},
		"announces a large answer": func(*testing.T, node, node, node, node) func(network.Stream, *pb.Message) {
			return func(s network.Stream, _ *pb.Message) { _, _ = s.Write(binary.AppendUvarint(nil, 1<<40)) }
		},
		"answers no message": func(*testing.T, node, node, node, node) func(network.Stream, *pb.Message) {
			return func(s network.Stream, _ *pb.Message) {
				_, _ = s.Write(append([]byte{40}, bytes.Repeat([]byte{7}, 40)...))
			}
		},
		"names thousands": func(t *testing.T, _, _, _, sought node) func(network.Stream, *pb.Message) {
			var named []*pb.Message_Peer
			for _, id := range junk(1000, string(idOf(t, sought))) {
				named = append(named, at(t, id, "127.0.0.1:1"))
			}
			return func(s network.Stream, _ *pb.Message) { send(s, named...) }
		},
		"names itself, the asker and no id": func(t *testing.T, evil, asker, friend, _ node) func(network.Stream, *pb.Message) {
			return func(s network.Stream, _ *pb.Message) {
				send(s, at(t, idOf(t, evil), evil.Addr()), at(t, idOf(t, asker), asker.Addr()), at(t, idOf(t, friend), evil.Addr()), &pb.Message_Peer{},
					&pb.Message_Peer{Id: []byte("junk"), Addrs: [][]byte{{1, 2, 3}, nil, bytes.Repeat([]byte{4}, 4000)}})
			}
		},
		"names strangers that are silent": func(t *testing.T, _, _, _, sought node) func(network.Stream, *pb.Message) {
			at1 := silence(t)
			var named []*pb.Message_Peer
			for _, id := range junk(21, string(idOf(t, sought))) {
				named = append(named, at(t, id, at1))
			}
			return func(s network.Stream, _ *pb.Message) { send(s, named...) }
		},
		"names the node at a silent address": func(t *testing.T, _, _, _, sought node) func(network.Stream, *pb.Message) {
			named := at(t, idOf(t, sought), silence(t))
			return func(s network.Stream, _ *pb.Message) { send(s, named) }
		},
		"names the node at the address of another": func(t *testing.T, evil, _, _, sought node) func(network.Stream, *pb.Message) {
			named := at(t, idOf(t, sought), evil.Addr())
			return func(s network.Stream, _ *pb.Message) { send(s, named) }
		},
	}
	for name, answers := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asker, evil, friend, sought := newNode(t, 0), newNode(t, 1), newNode(t, 2), newNode(t, 3)
			if _, err := friend.Dial(limited(t), sought.Addr()); err != nil {
				t.Fatal(err)
			}
			networktest.Eventually(t, "the friend knows the node", func() bool { return friend.finder.Size() == 1 })
			for _, n := range []node{evil, friend} {
				if _, err := asker.Dial(limited(t), n.Addr()); err != nil {
					t.Fatal(err)
				}
			}
			networktest.Eventually(t, "the asker knows both", func() bool { return asker.finder.Size() == 2 })
			turn(evil, answers(t, evil, asker, friend, sought))
			got, err := asker.finder.FindNode(limited(t), sought.Name())
			if err != nil {
				t.Fatalf("got %v after %v: %+v", err, got.Took, got)
			}
			if last := got.Path[len(got.Path)-1]; got.Nearest[0].Node != sought.Name() || last.Node != sought.Name() {
				t.Errorf("got %+v, want a path to %s", got, sought.Name())
			}
			// No junk stays behind.
			for _, id := range asker.Libp2p().Peerstore().PeersWithAddrs() {
				if !slices.Contains([]peer.ID{idOf(t, asker), idOf(t, evil), idOf(t, friend), idOf(t, sought)}, id) {
					t.Errorf("the addresses of %q are kept", string(id))
				}
			}
		})
	}
}

// Many lookups at once do not make one another fail.
func TestLookupStorm(t *testing.T) {
	a, b, c := newNode(t, 0), newNode(t, 1), newNode(t, 2)
	for _, other := range []node{b, c} {
		if _, err := a.Dial(limited(t), other.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	networktest.Eventually(t, "a knows both", func() bool { return a.finder.Size() == 2 })
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 1000 {
		wg.Go(func() {
			got, err := a.finder.FindKey(limited(t), fmt.Sprint(i))
			if err != nil || got.Failed > 0 {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of 1000 lookups got no answer of some node", n)
	}
}

// A node that hangs is not found, though a connection to the node is open.
func TestFindNodeThatHangs(t *testing.T) {
	a, b, c := newNode(t, 0), newNode(t, 1), newNode(t, 2)
	for _, other := range []node{b, c} {
		if _, err := a.Dial(limited(t), other.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	networktest.Eventually(t, "a knows both", func() bool { return a.finder.Size() == 2 })
	turn(b, func(network.Stream, *pb.Message) {})
	began := time.Now()
	got, err := a.finder.FindNode(limited(t), b.Name())
	if err == nil || got.Failed == 0 {
		t.Errorf("got %+v, %v, want an error", got, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the lookup took %v", took)
	}
}

// A connection that closes under a question costs the lookup a second question, not its
// result. A node that closes each connection is named with the cause.
func TestFindNodeOverABreakingConnection(t *testing.T) {
	for _, breaks := range []int32{1, math.MaxInt32} {
		a, b, c := newNode(t, 0), newNode(t, 1), newNode(t, 2)
		for _, other := range []node{b, c} {
			if _, err := a.Dial(limited(t), other.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		networktest.Eventually(t, "a knows both", func() bool { return a.finder.Size() == 2 })
		var asked atomic.Int32
		turn(b, func(s network.Stream, _ *pb.Message) {
			if asked.Add(1) <= breaks {
				_ = s.Conn().Close()
				return
			}
			send(s)
		})
		got, err := a.finder.FindNode(limited(t), b.Name())
		switch {
		case breaks == 1 && (err != nil || got.Nearest[0].Node != b.Name()):
			t.Errorf("the first connection breaks: got %+v, %v, want the node", got, err)
		case breaks > 1 && (err == nil || !strings.Contains(err.Error(), "did not answer")):
			t.Errorf("each connection breaks: got %+v, %v, want an error that names the cause", got, err)
		}
	}
}

// Behind a crowd of nodes that do not answer, a lookup finds a node all the same: a part
// of the instance has lost its power, or a member invents names.
func TestFindNodePastACrowdOfTheSilent(t *testing.T) {
	asker, evil, other, friend, sought := newNode(t, 0), newNode(t, 1), newNode(t, 2), newNode(t, 3), newNode(t, 4)
	for _, d := range []struct{ from, to node }{{friend, sought}, {other, friend}, {asker, other}, {asker, evil}} {
		if _, err := d.from.Dial(limited(t), d.to.Addr()); err != nil {
			t.Fatal(err)
		}
		networktest.Eventually(t, "the table", func() bool { return slices.Contains(d.from.finder.Known(), idOf(t, d.to)) })
	}
	crowd := silence(t)
	var ghosts []peer.ID
	for i := range 2000 {
		id, err := asker.PeerID(filch.NodeName(fmt.Sprintf("ghost%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		ghosts = append(ghosts, id)
	}
	var named []*pb.Message_Peer
	for _, id := range kb.SortClosestPeers(ghosts, kb.ConvertKey(string(idOf(t, sought))))[:21] {
		named = append(named, at(t, id, crowd))
	}
	turn(evil, func(s network.Stream, _ *pb.Message) { send(s, named...) })
	got, err := asker.finder.FindNode(limited(t), sought.Name())
	if err != nil || got.Took > 2*time.Second {
		t.Errorf("got %+v, %v, want the node within 2 s", got, err)
	}
}

// A lookup of a key that its time limit ends says so, and has the nodes found so far.
func TestFindKeyAtItsTimeLimit(t *testing.T) {
	a, b, c := newNode(t, 0), newNode(t, 1), newNode(t, 2)
	for _, other := range []node{b, c} {
		if _, err := a.Dial(limited(t), other.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	networktest.Eventually(t, "a knows both", func() bool { return a.finder.Size() == 2 })
	answered := make(chan struct{})
	turn(b, func(s network.Stream, _ *pb.Message) {
		send(s)
		close(answered)
	})
	turn(c, func(network.Stream, *pb.Message) {})
	ctx, cancel := context.WithCancel(limited(t))
	go func() {
		<-answered
		// The answer is on its way; the limit of a lookup is far off.
		time.AfterFunc(300*time.Millisecond, cancel)
	}()
	got, err := a.finder.FindKey(ctx, "a key")
	if found := names(got, len(got.Nearest)); !errors.Is(err, overlay.ErrUnfinished) || !slices.Contains(found, b.Name()) {
		t.Fatalf("got %v and %v, want %s and %v", found, err, b.Name(), overlay.ErrUnfinished)
	}
	if !strings.Contains(err.Error(), "1 of 2 nodes asked had answered") {
		t.Errorf("got %q, want the numbers", err)
	}
	// Without the limit, the silent node counts as failed, and the lookup is complete.
	turn(b, func(s network.Stream, _ *pb.Message) { send(s) })
	if got, err := a.finder.FindKey(limited(t), "a key"); err != nil || got.Failed != 1 {
		t.Errorf("got %+v, %v, want a complete lookup with one failure", got, err)
	}
}
