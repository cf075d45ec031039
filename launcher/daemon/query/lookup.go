package query

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// lookupWait limits the time of a lookup for a query.
const lookupWait = 5 * time.Second

// lookup looks for a node, or for the home of a record. The key is the id of a job, the
// name of a node, or the key of a record, which has a slash.
func (sv *Server) lookup(key string) (any, error) {
	info := wire.LookupInfo{Replicas: []filch.NodeName{}, Path: []wire.LookupHop{}, Nearest: []wire.LookupNode{}}
	switch job, err := sv.parseJob(key); {
	case key == "":
		return nil, filch.Errorf(filch.Invalid, "a lookup takes a job, a node or the key of a record")
	case len(key) > dht.MaxKey:
		return nil, filch.Errorf(filch.Invalid, "cannot look for a key of %d bytes: a record's key has at most %d", len(key), dht.MaxKey)
	case err == nil:
		info.Key = string(launcher.JobKey(job))
		if j, err := sv.taskJob(job); err == nil && j != nil {
			info.Key = record.KeyJob(job)
		}
	case strings.Contains(key, "/"):
		info.Key = key
	default:
		info.Node = filch.NodeName(key)
		if err := overlay.CheckName(info.Node); err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot look for node %q: %s", key, err.Error()).
				WithHint("a record's key has a slash, like %s", launcher.JobKey(7))
		}
	}
	if info.Key != "" {
		if err := sv.home(&info); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(sv.in.Context(), lookupWait)
	defer cancel()
	var r overlay.Lookup
	var err error
	switch {
	case info.Node == sv.in.Self:
		return info, nil
	case info.Node != "":
		r, err = sv.daemon.Network().FindNode(ctx, info.Node)
	default:
		r, err = sv.daemon.Network().FindKey(ctx, info.Key) // no roster is known: the nodes nearest to the key
	}
	return found(info, key, r, err)
}

// found fills in the result of a lookup. A lookup of the nodes nearest to a key that ends
// at its time limit has a result, with the trouble.
func found(info wire.LookupInfo, key string, r overlay.Lookup, err error) (any, error) {
	for _, h := range r.Path {
		info.Path = append(info.Path, wire.LookupHop{Node: h.Node, Addr: h.Addr, Named: h.Named, Secs: h.Took.Seconds()})
	}
	for _, c := range r.Nearest {
		info.Nearest = append(info.Nearest, wire.LookupNode{Node: c.Node, Addr: c.Addr})
	}
	info.Asked, info.Failed, info.Secs = r.Asked, r.Failed, r.Took.Seconds()
	switch {
	case err != nil && r.Asked == 0:
		return nil, filch.Errorf(filch.Unavailable, "cannot look for %s: %s", key, err.Error())
	case errors.Is(err, overlay.ErrUnfinished) && info.Node == "":
		info.Trouble = err.Error()
	case err != nil:
		return nil, filch.Errorf(filch.NotFound, "%s (%d nodes asked, %d did not answer)", err.Error(), r.Asked, r.Failed)
	}
	return info, nil
}

// Seek looks a node up for the Node. A lookup that asked no node, or that ended at its time
// limit, proves nothing.
func (sv *Server) Seek(name filch.NodeName) {
	ctx, cancel := context.WithTimeout(sv.in.Context(), 2*lookupWait) // with the wait for a turn
	defer cancel()
	r, err := sv.daemon.Network().FindNode(ctx, name)
	vain := err != nil && r.Asked > 0 && !errors.Is(err, overlay.ErrUnfinished)
	sv.in.Post(func(t *inputs.Turn) { t.Node.Sought(t.Now, name, vain, t.Out) })
}

// home fills in the home of a record, as far as this node knows the roster.
func (sv *Server) home(info *wire.LookupInfo) error {
	return sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		shard, epoch, replicas := t.Node.StoreHome(dht.Key(info.Key))
		for _, r := range replicas {
			info.Replicas = append(info.Replicas, r.Name)
		}
		if len(replicas) > 0 {
			info.Shard, info.Epoch, info.Node = uint16(shard), epoch, replicas[0].Name
		}
	})
}
