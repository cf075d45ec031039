// Package pools reads and writes the records of the pools of an instance, through a launcher:
// for filchd, and for the commands of filch. Package pool decides what the records say.
package pools

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/pool"
)

// names is the record with the names of all pools, a list. Names of removed pools stay.
const names dht.Key = pool.NamesKey

// storeWait is how long operations on the store may take.
const storeWait = 10 * time.Second

// changeTries bounds how often a change of a record is tried again that another process
// has changed meanwhile.
const changeTries = 20

// NamesKey is the key of the record with the names of all pools.
func NamesKey() dht.Key { return names }

// Key is the key of the record of a pool.
func Key(name string) dht.Key { return dht.Key(pool.Key(name)) }

func store(c *client.Client, ops ...dht.Op) ([]dht.Result, error) {
	rs, err := c.Store(storeWait, ops...)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		switch r.Outcome {
		case dht.Done, dht.Absent, dht.Exists, dht.Mismatch:
		default:
			return nil, filch.Errorf(filch.Unavailable, "cannot read or write the record of a pool: %s %s", r.Outcome, r.Err).WithHint("filch doctor says more")
		}
	}
	return rs, nil
}

// List returns the names of all pools that the instance has had, sorted, and the version of
// the record with the names.
func List(c *client.Client) ([]string, dht.Version, error) {
	rs, err := store(c, dht.Op{Code: dht.OpLookup, Key: names, Consistent: true})
	if err != nil {
		return nil, dht.Version{}, err
	}
	if rs[0].Outcome == dht.Absent {
		return nil, rs[0].Version, nil
	}
	all, err := dht.DecodeList(rs[0].Value)
	if err != nil {
		return nil, rs[0].Version, err
	}
	var out []string
	for _, name := range all {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return slices.Compact(out), rs[0].Version, nil
}

// Read reads a pool; nil: there was none of the name. The record of a removed pool stays: see
// [pool.Pool.Gone]. A record that cannot be decoded is an error with the version of the record.
func Read(c *client.Client, name string) (*pool.Pool, dht.Version, error) {
	rs, err := store(c, dht.Op{Code: dht.OpLookup, Key: Key(name), Consistent: true})
	if err != nil {
		return nil, dht.Version{}, err
	}
	if rs[0].Outcome == dht.Absent {
		return nil, rs[0].Version, nil
	}
	p, err := pool.Decode(rs[0].Value)
	return p, rs[0].Version, err
}

// Write stores a changed pool; false: another process has changed the record meanwhile.
func Write(c *client.Client, p *pool.Pool, was dht.Version) (bool, error) {
	rs, err := store(c, dht.Op{Code: dht.OpSwap, Key: Key(p.Name), Kind: dht.KindRegister, Value: p.Encode(), Expect: was, Durable: true})
	return err == nil && rs[0].Outcome == dht.Done, err
}

// Define stores the record of a new pool, and the name, unless known has the name.
func Define(c *client.Client, p *pool.Pool, was dht.Version, known []string) error {
	ok, err := Write(c, p, was)
	if err == nil && !ok {
		err = filch.Errorf(filch.Busy, "cannot define the pool %s: another command defined it first", p.Name)
	}
	if err == nil && !slices.Contains(known, p.Name) {
		_, err = store(c, dht.Op{Code: dht.OpAppend, Key: names, Value: []byte(p.Name), Durable: true})
	}
	return err
}

// Change changes a pool.
func Change(c *client.Client, name string, f func(p *pool.Pool) error) (*pool.Pool, error) {
	for range changeTries {
		p, v, err := Read(c, name)
		if err == nil && p == nil {
			err = filch.Errorf(filch.NotFound, "there is no pool %.40q", name).WithHint("filch pool lists the pools")
		}
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return nil, err
		}
		p.Beat++
		if ok, err := Write(c, p, v); ok || err != nil {
			return p, err
		}
	}
	return nil, filch.Errorf(filch.Busy, "cannot change the pool %s: %d times another process changed the record first", name, changeTries)
}
