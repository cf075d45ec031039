package batch

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

func keyOf(name string) dht.Key { return dht.Key(pool.Key(name)) }

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

// list returns the names of the pools.
func list(c *client.Client) ([]string, error) {
	rs, err := store(c, dht.Op{Code: dht.OpLookup, Key: names, Consistent: true})
	if err != nil || rs[0].Outcome == dht.Absent {
		return nil, err
	}
	all, err := dht.DecodeList(rs[0].Value)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range all {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Read reads a pool; nil: there was none of the name. The record of a removed pool stays.
func Read(c *client.Client, name string) (*pool.Pool, error) {
	p, _, err := read(c, name)
	return p, err
}

// read reads a pool; nil: there is none of the name.
func read(c *client.Client, name string) (*pool.Pool, dht.Version, error) {
	rs, err := store(c, dht.Op{Code: dht.OpLookup, Key: keyOf(name), Consistent: true})
	if err != nil || rs[0].Outcome == dht.Absent {
		return nil, dht.Version{}, err
	}
	p, err := pool.Decode(rs[0].Value)
	return p, rs[0].Version, err
}

// write stores a changed pool; false: another process has changed the record meanwhile.
func write(c *client.Client, p *pool.Pool, was dht.Version) (bool, error) {
	rs, err := store(c, dht.Op{Code: dht.OpSwap, Key: keyOf(p.Name), Kind: dht.KindRegister, Value: p.Encode(), Expect: was, Durable: true})
	return err == nil && rs[0].Outcome == dht.Done, err
}

// change changes a pool.
func change(c *client.Client, name string, f func(p *pool.Pool) error) (*pool.Pool, error) {
	for range changeTries {
		p, v, err := read(c, name)
		if err == nil && p == nil {
			err = noPool(name)
		}
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return nil, err
		}
		p.Beat++
		if ok, err := write(c, p, v); ok || err != nil {
			return p, err
		}
	}
	return nil, filch.Errorf(filch.Busy, "cannot change the pool %s: %d times another process changed the record first", name, changeTries)
}

func noPool(name string) error {
	return filch.Errorf(filch.NotFound, "there is no pool %.40q", name).WithHint("filch pool lists the pools")
}
