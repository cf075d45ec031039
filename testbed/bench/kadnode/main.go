// Command kadnode is one node of go-libp2p-kad-dht with its own value records,
// on the same kind of host as a launcher's: what the store is measured beside.
//
// It prints its address, then obeys lines of standard input, each answered by a
// line that begins with the same number, in any order:
//
//	N join NAME ADDR    dials a node
//	N refresh           fills the routing table
//	N put KEY VALUE
//	N get KEY           answers with the value
//	N requests          answers with how many it has served
//
// It ends with its standard input.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
)

// namespace is that of the keys.
const namespace = "bench"

// patience bounds one order.
const patience = 30 * time.Second

// newest takes any value, and of several the greatest: who measures numbers
// them.
type newest struct{}

func (newest) Validate(string, []byte) error { return nil }

func (newest) Select(_ string, values [][]byte) (int, error) {
	best := 0
	for i, v := range values {
		if bytes.Compare(v, values[best]) > 0 {
			best = i
		}
	}
	return best, nil
}

type node struct {
	host   *overlay.Host
	dht    *kaddht.IpfsDHT
	served atomic.Int64
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kadnode NAME")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kadnode:", err)
		os.Exit(1)
	}
}

func serve(name string) error {
	n := &node{}
	var err error
	n.host, err = overlay.NewHost(overlay.Config{
		Instance: "bench", Secret: []byte("a secret of a bench, 32 bytes...."), Name: filch.NodeName(name), Incarnation: 1,
		Listen: "127.0.0.1:0", Attach: n.attach, Detach: func() error { return n.dht.Close() },
	})
	if err != nil {
		return err
	}
	defer n.host.Close()
	fmt.Println(n.host.Addr())
	var mu sync.Mutex // of standard output
	var work sync.WaitGroup
	defer work.Wait()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) < 2 {
			return fmt.Errorf("an order of %d words", len(words))
		}
		work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			answer, err := n.obey(ctx, words[1], words[2:])
			status := "ok"
			if err != nil {
				status, answer = "failed", strings.ReplaceAll(err.Error(), "\n", " ")
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(words[0], status, answer)
		})
	}
	return in.Err()
}

func (n *node) attach(h *overlay.Host) (err error) {
	n.dht, err = kaddht.New(h.Libp2p(),
		kaddht.Mode(kaddht.ModeServer), kaddht.ProtocolPrefix("/bench"),
		kaddht.NamespacedValidator(namespace, newest{}),
		kaddht.DisableProviders(), kaddht.DisableAutoRefresh(),
		kaddht.OnRequestHook(func(context.Context, network.Stream, *pb.Message) { n.served.Add(1) }),
	)
	return err
}

func (n *node) obey(ctx context.Context, verb string, args []string) (string, error) {
	switch {
	case verb == "join" && len(args) == 2:
		n.host.Learn(filch.NodeName(args[0]), []string{args[1]})
		_, err := n.host.Dial(ctx, args[1])
		return "", err
	case verb == "refresh":
		select {
		case err := <-n.dht.ForceRefresh():
			return "", err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	case verb == "put" && len(args) == 2:
		return "", n.dht.PutValue(ctx, "/"+namespace+"/"+args[0], []byte(args[1]))
	case verb == "get" && len(args) == 1:
		v, err := n.dht.GetValue(ctx, "/"+namespace+"/"+args[0])
		return string(v), err
	case verb == "requests":
		return fmt.Sprint(n.served.Load()), nil
	}
	return "", errors.New("no such order")
}
