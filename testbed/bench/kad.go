package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kads is a mesh of kad-dht nodes that keep values.
type kads struct {
	all []*kadNode
}

// kadNode is the process of one.
type kadNode struct {
	name string
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	done chan struct{}

	mu      sync.Mutex
	next    int
	answers map[int]chan string
}

const kadPatience = 40 * time.Second

// buildKad makes the program of a node.
func buildKad(dir string) (string, error) {
	exe := filepath.Join(dir, "kadnode")
	text, err := exec.Command("go", "build", "-o", exe, "./testbed/bench/kadnode").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build kadnode: %w: %s", err, text)
	}
	return exe, nil
}

func newKads(exe string, n int) (*kads, error) {
	k := &kads{}
	for i := range n {
		node, err := startKad(exe, fmt.Sprint("k", i))
		if err != nil {
			k.close()
			return nil, err
		}
		k.all = append(k.all, node)
		// Each knows some earlier nodes and finds the others, as a launcher does.
		for _, old := range k.all[max(0, i-3):i] {
			if _, err := node.order("join", old.name, old.addr); err != nil {
				k.close()
				return nil, err
			}
		}
	}
	for _, node := range k.all {
		if _, err := node.order("refresh"); err != nil {
			k.close()
			return nil, err
		}
	}
	return k, nil
}

func startKad(exe, name string) (*kadNode, error) {
	n := &kadNode{name: name, cmd: exec.Command(exe, name), answers: map[int]chan string{}, done: make(chan struct{})}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if n.in, err = n.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	n.out = bufio.NewScanner(out)
	if !n.out.Scan() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		return nil, errors.New("a kad node does not come up")
	}
	n.addr = n.out.Text()
	go n.read()
	return n, nil
}

// read hands answers to those who wait.
func (n *kadNode) read() {
	defer close(n.done)
	for n.out.Scan() {
		number, rest, _ := strings.Cut(n.out.Text(), " ")
		i, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		n.mu.Lock()
		c := n.answers[i]
		delete(n.answers, i)
		n.mu.Unlock()
		if c != nil {
			c <- rest
		}
	}
}

// order has the node do something.
func (n *kadNode) order(words ...string) (string, error) {
	c := make(chan string, 1)
	n.mu.Lock()
	n.next++
	number := n.next
	n.answers[number] = c
	n.mu.Unlock()
	// One write of less than a page: those of several callers do not mix.
	if _, err := fmt.Fprintln(n.in, number, strings.Join(words, " ")); err != nil {
		return "", err
	}
	timer := time.NewTimer(kadPatience)
	defer timer.Stop()
	select {
	case text := <-c:
		status, answer, _ := strings.Cut(text, " ")
		if status != "ok" {
			return "", fmt.Errorf("kad-dht: %s: %s", words[0], answer)
		}
		return answer, nil
	case <-n.done:
		return "", errors.New("kad-dht: the node ended")
	case <-timer.C:
		return "", fmt.Errorf("kad-dht: %s: no answer within %v", words[0], kadPatience)
	}
}

func (k *kads) name() string { return "kad-dht" }
func (k *kads) nodes() int   { return len(k.all) }

// can: it has neither swaps nor batches, and no read that is sure of anything.
func (k *kads) can(d deed) int {
	if d == opInsert || d == opLookup {
		return 1
	}
	return 0
}

func (k *kads) cpu() (total time.Duration) {
	for _, n := range k.all {
		total += threadCPU(n.cmd.Process.Pid)
	}
	return total
}

// messages counts a request and its answer as two.
func (k *kads) messages() (total int64) {
	for _, n := range k.all {
		text, _ := n.order("requests")
		i, _ := strconv.ParseInt(text, 10, 64)
		total += 2 * i
	}
	return total
}

func (k *kads) close() {
	for _, n := range k.all {
		_ = n.in.Close()
		timer := time.AfterFunc(2*time.Second, func() { _ = n.cmd.Process.Kill() })
		<-n.done
		_ = n.cmd.Wait()
		timer.Stop()
	}
}

type kadClient struct{ n *kadNode }

func (k *kads) dial(node int) (storeClient, error) { return kadClient{k.all[node]}, nil }

func (c kadClient) close() {}

func (c kadClient) do(d deed, keys []string, value []byte) error {
	for _, key := range keys {
		words := []string{"get", key}
		if d == opInsert {
			words = []string{"put", key, string(value)}
		}
		if _, err := c.n.order(words...); err != nil {
			return err
		}
	}
	return nil
}
