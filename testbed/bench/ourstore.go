package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/netns"
)

// mesh is an instance of filch whose store is measured.
type mesh struct {
	ours *ours
	env  []string
	list []node
	dirs []place.Dir
	asks []*client.Client // one for each launcher, for its counters
	own  bool             // it has a network of its own, whose traffic is all its own
}

const (
	storeWait = 10 * time.Second // for one call
	ourBatch  = 1000
)

// newMesh brings up launchers, in a network namespace of their own where that
// can be made, and waits until every shard has its replicas.
func newMesh(o *ours, scratch string, n int) (*mesh, error) {
	return newMeshOf(o, scratch, "store", n, 1)
}

// newMeshOf is the same with as many slots on each launcher, and a name by what
// it is for.
func newMeshOf(o *ours, scratch, what string, n, slots int) (*mesh, error) {
	m := &mesh{ours: o}
	instance := fmt.Sprintf("%s-%d-%d", what, n, os.Getpid())
	dir := filepath.Join(scratch, what[:1]+strconv.Itoa(n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m.env = append(os.Environ(), "HOME="+dir, "FILCH_LOCAL="+dir, "FILCH_INSTANCE="+instance)
	var argv []string
	argv, m.own = apart(o.exe, "up", "--nodes", strconv.Itoa(n), "--slots", strconv.Itoa(slots))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = m.env
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("filch up --nodes %d: %w: %s", n, err, text)
	}
	raise(instance, func() { o.down(m.env) })
	err := m.meet(dir, instance, n)
	if err == nil {
		err = m.ready()
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// apart has a command run in a network of its own, where that can be made.
func apart(argv ...string) ([]string, bool) {
	if netns.Usable() != nil {
		return argv, false
	}
	return append([]string{"unshare", "--net", "sh", "-ec", `ip link set lo up; exec "$@"`, "sh"}, argv...), true
}

// meet connects to every launcher.
func (m *mesh) meet(dir, instance string, n int) (err error) {
	end := time.Now().Add(storeSettle)
	for len(m.list) != n {
		if m.list, err = m.ours.nodes(m.env); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d launchers are there after %v", len(m.list), n, storeSettle)
		}
	}
	base := filepath.Join(dir, "filch-"+strconv.Itoa(os.Getuid()))
	for _, one := range m.list {
		m.dirs = append(m.dirs, place.Dir{Base: base, Instance: instance, Node: one.Name})
		c, err := client.DialDir(m.dirs[len(m.dirs)-1], "")
		if err != nil {
			return err
		}
		m.asks = append(m.asks, c)
	}
	return nil
}

// ready waits until all know the roster and no shard wants a replica.
func (m *mesh) ready() error {
	end := time.Now().Add(storeSettle)
	for {
		raw, err := m.asks[0].Query(storeWait, wire.VerbRoster)
		var all []wire.RosterInfo
		if err == nil {
			err = json.Unmarshal(raw, &all)
		}
		if err != nil {
			return err
		}
		done := len(all) == len(m.list)
		for _, r := range all {
			done = done && r.Known && r.Short == 0 && r.Learning == 0 && len(r.Members) == len(m.list)
		}
		if done {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the store of %d launchers is not whole after %v: %+v", len(m.list), storeSettle, all[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *mesh) cpu() (total time.Duration) {
	for _, one := range m.list {
		total += threadCPU(one.PID)
	}
	return total
}

func (m *mesh) messages() int64 {
	total := int64(0)
	err := m.stats(func(s *wire.StatsInfo) { total += int64(s.Counts["store_out"]) })
	if err != nil {
		return -1
	}
	return total
}

// stats asks every launcher for its counters.
func (m *mesh) stats(each func(*wire.StatsInfo)) error {
	for _, c := range m.asks {
		raw, err := c.Query(storeWait, wire.VerbStats)
		var s wire.StatsInfo
		if err == nil {
			err = json.Unmarshal(raw, &s)
		}
		if err != nil {
			return err
		}
		each(&s)
	}
	return nil
}

func (m *mesh) close() {
	for _, c := range m.asks {
		c.Close()
	}
	m.ours.down(m.env)
}

// filchStore is the store of a mesh, asked for one kind of durability.
type filchStore struct {
	*mesh
	durable bool
}

func (s *filchStore) name() string {
	if s.durable {
		return "filch, durable"
	}
	return "filch"
}

func (s *filchStore) nodes() int { return len(s.list) }

func (s *filchStore) can(d deed) int {
	if s.durable && (d == opLookup || d == opConfirm) {
		return 0 // no difference
	}
	return ourBatch
}

// close is the mesh's own business.
func (s *filchStore) close() {}

func (s *filchStore) dial(node int) (storeClient, error) {
	c, err := client.DialDir(s.dirs[node], "")
	if err != nil {
		return nil, err
	}
	return &filchClient{Client: c, durable: s.durable, versions: map[string]dht.Version{}}, nil
}

// filchClient remembers the versions of the keys that it writes.
type filchClient struct {
	*client.Client
	durable  bool
	versions map[string]dht.Version
	ops      []dht.Op
}

func (c *filchClient) close() { c.Close() }

func (c *filchClient) do(d deed, keys []string, value []byte) error {
	c.ops = c.ops[:0]
	for _, k := range keys {
		op := dht.Op{Key: dht.Key(k), Durable: c.durable}
		switch d {
		case opInsert:
			op.Code, op.Kind, op.Value = dht.OpInsert, dht.KindRegister, value
		case opSwap:
			op.Code, op.Kind, op.Value, op.Expect = dht.OpSwap, dht.KindRegister, value, c.versions[k]
		default:
			op.Code, op.Consistent, op.Durable = dht.OpLookup, d == opConfirm, false
		}
		c.ops = append(c.ops, op)
	}
	results, err := c.Store(storeWait, c.ops...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Outcome != dht.Done {
			return fmt.Errorf("%s of %s: %s %s", d, keys[i], r.Outcome, r.Err)
		}
		if d == opInsert || d == opSwap {
			c.versions[keys[i]] = r.Version
		}
	}
	return nil
}
