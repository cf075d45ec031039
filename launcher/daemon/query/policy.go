package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/policy"
)

// policyWait limits the time for writing the policy, with retries.
const policyWait = records.StoreWait + 5*time.Second

// policies shows and changes the policy of the instance.
type policies struct{ sv *Server }

// policy returns the scheduling policies of all nodes, or, for a query of another node,
// the policy of this node. If a client sends a text, this node writes the policy to the
// store first; a text from another node comes with the version that the policy has
// there.
func (ps policies) policy(arg func(int) string, local bool) (any, error) {
	text, version := arg(0), dht.Version{}
	if text != "" {
		p, err := policy.Read(text)
		if err != nil {
			return nil, err
		}
		if local {
			version, err = ps.writePolicy(p)
		} else if version, err = readVersion(arg(1)); err == nil {
			err = ps.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.TakeTaskPolicy(t.Now, p, version, t.Out) })
		}
		if err != nil {
			return nil, err
		}
	}
	own, err := ps.policyHere()
	if err != nil {
		return nil, err
	}
	all := []wire.PolicyInfo{own}
	if !local {
		return all, nil
	}
	q := wire.Query{Verb: wire.VerbPolicy}
	if text != "" {
		q.Args = []string{text, versionText(version)}
	}
	peers.AskAll(ps.sv.daemon.Questions, q, func(m peers.Member, v []wire.PolicyInfo, err error) {
		if err != nil || len(v) != 1 {
			v = []wire.PolicyInfo{{Node: m.Name, Silent: true}}
		}
		all = append(all, v[0])
	})
	return all, nil
}

// writePolicy writes p as the policy of the instance.
func (ps policies) writePolicy(p policy.Policy) (v dht.Version, err error) {
	done := make(chan struct{})
	if post := ps.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.WriteTaskPolicy(t.Now, p, func(have dht.Version, why *filch.Error) {
			v, err = have, orNil(why)
			close(done)
		}, t.Out)
	}); post != nil {
		return v, post
	}
	if !ps.sv.in.Await(done, policyWait) {
		return v, filch.Errorf(filch.Unavailable, "cannot write the scheduling policy: the store does not answer")
	}
	return v, err
}

func (ps policies) policyHere() (wire.PolicyInfo, error) {
	i := wire.PolicyInfo{Node: ps.sv.in.Self}
	err := ps.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		p, q, chosen := t.Node.TaskPolicy()
		i.Policy, i.Victims, i.Balance = p.Kind.String(), p.Victims.String(), p.Balance.String()
		for id, c := range chosen { // any order: sorted below
			i.Chosen = append(i.Chosen, wire.PolicyChoice{Job: id, Policy: c.Kind.String(), Why: c.Why})
		}
		slices.SortFunc(i.Chosen, func(a, b wire.PolicyChoice) int { return cmp.Compare(a.Job, b.Job) })
		if p.Kind == policy.RLDS || p.Kind == policy.FLDS {
			i.Threshold = p.Bound()
		}
		if p.Kind == policy.FLDS {
			i.LocalTime = p.LocalTime.Seconds()
		}
		i.Queues = wire.QueueInfo{
			Waiting: q.Waiting, Dedicated: q.Dedicated, Shared: q.Shared + q.Frozen, Running: q.Running, Complete: q.Complete,
		}
	})
	return i, err
}

func versionText(v dht.Version) string {
	return strconv.FormatUint(v.Epoch, 10) + "." + strconv.FormatUint(v.Seq, 10)
}

func readVersion(s string) (v dht.Version, err error) {
	epoch, seq, _ := strings.Cut(s, ".")
	if v.Epoch, err = strconv.ParseUint(epoch, 10, 64); err == nil {
		v.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return v, filch.Errorf(filch.Invalid, "%q is no version of a record", s)
	}
	return v, nil
}
