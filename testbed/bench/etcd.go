package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// etcd is three members on loopback. Each commit is synced on a majority of
// them, which is its only way.
type etcd struct {
	cmds  []*exec.Cmd
	addrs []string
}

const (
	etcdMembers  = 3
	etcdBatch    = 100 // below its --max-txn-ops
	etcdPatience = 20 * time.Second
)

// newEtcd starts the members, with their data below dir.
func newEtcd(dir string) (*etcd, error) {
	exe, err := lookup("etcd")
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install -y etcd-server", err)
	}
	ports, err := freePorts(2 * etcdMembers)
	if err != nil {
		return nil, err
	}
	var cluster []string
	for i := range etcdMembers {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, ports[2*i+1]))
	}
	e := &etcd{}
	for i := range etcdMembers {
		home := filepath.Join(dir, fmt.Sprint("etcd", i))
		peer, addr := "http://"+ports[2*i+1], "http://"+ports[2*i]
		cmd := exec.Command(exe, "--name", fmt.Sprint("m", i), "--data-dir", home, "--log-level", "error",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--listen-client-urls", addr, "--advertise-client-urls", addr,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH="+os.Getenv("ETCD_UNSUPPORTED_ARCH"))
		if err := cmd.Start(); err != nil {
			e.close()
			return nil, err
		}
		e.cmds = append(e.cmds, cmd)
		e.addrs = append(e.addrs, ports[2*i])
	}
	for end := time.Now().Add(etcdPatience); ; {
		c, _ := e.dial(0)
		err := c.do(opInsert, []string{fmt.Sprint("bench/up/", time.Now().UnixNano())}, []byte("x"))
		c.close()
		if err == nil {
			return e, nil
		}
		if time.Now().After(end) {
			e.close()
			return nil, fmt.Errorf("etcd does not come up within %v: %w", etcdPatience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// freePorts are addresses on loopback that nobody listens on now.
func freePorts(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

func (e *etcd) name() string { return "etcd" }
func (e *etcd) nodes() int   { return etcdMembers }

func (e *etcd) can(deed) int { return etcdBatch }

func (e *etcd) cpu() (total time.Duration) {
	for _, c := range e.cmds {
		total += threadCPU(c.Process.Pid)
	}
	return total
}

func (e *etcd) messages() int64 { return -1 }

func (e *etcd) close() {
	for _, c := range e.cmds {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// etcdClient remembers the revisions of the keys that it writes.
type etcdClient struct {
	rpc       *rpc
	revisions map[string]uint64
}

func (e *etcd) dial(node int) (storeClient, error) {
	return &etcdClient{rpc: newRPC(e.addrs[node]), revisions: map[string]uint64{}}, nil
}

func (c *etcdClient) close() { c.rpc.close() }

func (c *etcdClient) do(d deed, keys []string, value []byte) error {
	if (d == opLookup || d == opConfirm) && len(keys) == 1 {
		b, err := c.rpc.call("Range", rangeRequest(keys[0], d == opLookup))
		if err != nil {
			return err
		}
		found := 0
		err = fields(b, func(field int, _ uint64, _ []byte) {
			if field == 2 {
				found++
			}
		})
		if err == nil && found != 1 {
			err = fmt.Errorf("etcd: %d values of %s", found, keys[0])
		}
		return err
	}
	return c.txn(d, keys, value)
}

func rangeRequest(key string, serializable bool) []byte {
	b := putBytes(nil, 1, []byte(key))
	if serializable {
		b = putVarint(b, 7, 1)
	}
	return b
}

// txn does several reads, or writes that depend on each key's revision.
func (c *etcdClient) txn(d deed, keys []string, value []byte) error {
	var m []byte
	for _, k := range keys {
		if d == opLookup || d == opConfirm {
			m = putBytes(m, 2, putBytes(nil, 1, rangeRequest(k, d == opLookup)))
			continue
		}
		// The key's last change is that of our last write; 0 when there is none.
		compare := putVarint(nil, 2, 2) // target: revision of the last change
		compare = putBytes(compare, 3, []byte(k))
		compare = putVarint(compare, 6, c.revisions[k])
		m = putBytes(m, 1, compare)
		m = putBytes(m, 2, putBytes(nil, 2, putBytes(putBytes(nil, 1, []byte(k)), 2, value)))
	}
	b, err := c.rpc.call("Txn", m)
	if err != nil {
		return err
	}
	ok, revision := false, uint64(0)
	err = fields(b, func(field int, v uint64, data []byte) {
		switch field {
		case 1:
			_ = fields(data, func(field int, v uint64, _ []byte) {
				if field == 3 {
					revision = v
				}
			})
		case 2:
			ok = v == 1
		}
	})
	if err == nil && !ok {
		err = errors.New("etcd: a key was not as expected")
	}
	if d == opSwap || d == opInsert {
		for _, k := range keys {
			c.revisions[k] = revision
		}
	}
	return err
}
