package kad

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"github.com/filch-hpc/filch/dht/overlay"
)

// wireProtocol is the name of the protocol of go-libp2p-kad-dht under prefix.
const wireProtocol protocol.ID = prefix + "/kad/1.0.0"

// Limits of an answer.
const (
	maxAnswer = 64 << 10 // bytes
	maxNamed  = bucketSize + 1
	maxAddrs  = 2 // of one node: a node of filch has one
	maxOther  = 8 // of one node, named by other nodes of a lookup
)

// ask puts the question FIND_NODE for a key to a connected node, and returns the
// nodes in the answer. Nothing in the answer is proven: a connection to a named node
// proves the node's name.
func ask(ctx context.Context, h *overlay.Host, id peer.ID, key string) ([]peer.AddrInfo, error) {
	s, err := h.Libp2p().NewStream(network.WithNoDial(ctx, "lookup"), id, wireProtocol)
	if err != nil {
		return nil, err
	}
	defer s.Reset()
	stop := context.AfterFunc(ctx, func() { s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	question, err := proto.Marshal(pb.NewMessage(pb.Message_FIND_NODE, []byte(key), 0))
	if err != nil {
		return nil, err
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, uint64(len(question))), question...)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(s)
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes, at most %d", n, maxAnswer)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, err
	}
	var m pb.Message
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	var out []peer.AddrInfo
	for _, p := range pb.PBPeersToPeerInfos(m.GetCloserPeers()) {
		if len(out) < maxNamed && p.ID.Validate() == nil {
			p.Addrs = p.Addrs[:min(len(p.Addrs), maxAddrs)]
			out = append(out, *p)
		}
	}
	return out, nil
}
