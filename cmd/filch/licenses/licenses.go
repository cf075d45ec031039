// Package licenses defines and reads the resources that all nodes of an instance share, such
// as the licenses of a site. The store has a record of tokens for each; mtc hands the
// tokens to nodes.
package licenses

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

// names is the record with the names of all licenses, a list.
const names dht.Key = "pools"

// most bounds the licenses of an instance.
const most = 256

// wait is how long operations on the store may take.
const wait = 10 * time.Second

// License is a resource that all nodes share.
type License struct {
	Name  string `json:"name"`
	Limit int32  `json:"limit"`
	Used  int32  `json:"used"` // by nodes, for running tasks or for those about to start
	Free  int32  `json:"free"` // below 0 if the limit was lowered
	Nodes []Use  `json:"nodes"`
}

// Use is how much of a license a node has.
type Use struct {
	Node filch.NodeName `json:"node"`
	Held int32          `json:"held"`
}

func store(c *client.Client, ops ...dht.Op) ([]dht.Result, error) {
	rs, err := c.Store(wait, ops...)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if r.Outcome != dht.Done && r.Outcome != dht.Absent {
			return nil, filch.Errorf(filch.Unavailable, "cannot read or write the record of a resource: %s %s", r.Outcome, r.Err).WithHint("filch doctor says more")
		}
	}
	return rs, nil
}

// List reads all licenses, by name.
func List(c *client.Client) ([]License, error) {
	rs, err := store(c, dht.Op{Code: dht.OpLookup, Key: names, Consistent: true})
	if err != nil || rs[0].Outcome == dht.Absent {
		return nil, err
	}
	list, err := dht.DecodeList(rs[0].Value)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range list {
		all = append(all, string(name))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	ops := make([]dht.Op, len(all))
	for i, name := range all {
		ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(record.KeyLicense(name)), Consistent: true}
	}
	if rs, err = store(c, ops...); err != nil {
		return nil, err
	}
	var licenses []License
	for i, name := range all {
		if rs[i].Outcome == dht.Absent {
			continue
		}
		r, err := record.DecodeCap(rs[i].Value)
		if err != nil {
			return nil, err
		}
		licenses = append(licenses, licenseOf(name, r))
	}
	return licenses, nil
}

func licenseOf(name string, r *record.Cap) License {
	p := License{Name: name, Limit: r.Limit, Free: r.Free(), Nodes: []Use{}}
	p.Used = p.Limit - p.Free
	for _, h := range r.Holders {
		if h.Held > 0 {
			p.Nodes = append(p.Nodes, Use{h.Node, h.Held})
		}
	}
	slices.SortFunc(p.Nodes, func(a, b Use) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return p
}

// Set defines a license, or changes its limit. Tokens beyond a lowered limit come back as
// tasks end.
func Set(c *client.Client, name string, limit int32) error {
	have, err := List(c)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(have, func(p License) bool { return p.Name == name })
	if !known && len(have) >= most {
		return filch.Errorf(filch.Invalid, "cannot define %s: %d resources are defined, the most is %d", name, len(have), most)
	}
	op := record.CapOp{Limit: limit, Deed: record.CapLimit}
	ops := []dht.Op{{
		Code: dht.OpMerge, Key: dht.Key(record.KeyLicense(name)), Kind: launcher.KindTasks + dht.Kind(record.RecordCap), Value: op.Encode(), Durable: true,
	}}
	if !known {
		ops = append(ops, dht.Op{Code: dht.OpAppend, Key: names, Value: []byte(name), Durable: true})
	}
	_, err = store(c, ops...)
	return err
}

// Split takes the licenses out of the resources that a task takes, or each of the ranks of a
// run. A job takes of one license at most.
func Split(c *client.Client, a filch.Amounts, ranks int32) (rest filch.Amounts, license record.License, err error) {
	if a == "" {
		return "", license, nil
	}
	all, err := List(c)
	if err != nil {
		return a, license, err
	}
	return split(all, a, ranks)
}

// SplitTasks sets what the tasks of a job take of a resource that all nodes share: each
// task an amount of its own, or nothing.
func SplitTasks(c *client.Client, sp *record.Spec) error {
	needs := append([]record.Need{sp.Need(0)}, sp.Needs...)
	if !slices.ContainsFunc(needs, func(n record.Need) bool { return n.Each.Named != "" }) {
		return nil
	}
	all, err := List(c)
	if err != nil {
		return err
	}
	name := ""
	for i, n := range needs {
		ranks := max(n.Gang.Ranks, 1)
		rest, license, err := split(all, n.Each.Named, ranks)
		if err == nil && name != "" && license.Name != "" && license.Name != name {
			err = twoLicenses(name, license.Name)
		}
		if err != nil {
			return err
		}
		name = cmp.Or(name, license.Name)
		if n := license.Each * ranks; i == 0 {
			sp.Each.Named, sp.License.Each = rest, n
		} else {
			sp.Needs[i-1].Each.Named, sp.Needs[i-1].License = rest, n
		}
	}
	if sp.License.Name = name; name != "" && sp.Cap > 0 {
		return filch.Errorf(filch.Invalid, "tasks that take %s, which all nodes share, have no other limit on how many run at a time: here it is %d", name, sp.Cap).
			WithHint("leave %%N or -j N out, or set the limit with filch resource %s=N", name)
	}
	return nil
}

func twoLicenses(a, b string) error {
	return filch.Errorf(filch.Invalid, "a job takes of one resource that all nodes share, not of both %s and %s", a, b).
		WithHint("define one resource for both: filch resource NAME=N")
}

func split(all []License, a filch.Amounts, ranks int32) (rest filch.Amounts, license record.License, err error) {
	rest = a
	for _, p := range all {
		n := a.Of(p.Name)
		switch {
		case n == 0:
			continue
		case license.Name != "":
			return a, license, twoLicenses(license.Name, p.Name)
		case n > int64(p.Limit) || n*int64(ranks) > int64(p.Limit):
			return a, license, filch.Errorf(filch.NoFit, "cannot take %d of %s: all nodes together have %d", n*int64(ranks), p.Name, p.Limit).
				WithHint("filch resource %s=%d raises the limit", p.Name, n*int64(ranks))
		}
		license, rest = record.License{Name: p.Name, Each: int32(n)}, rest.Without(p.Name)
	}
	return rest, license, nil
}
