package store

import (
	"slices"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// watchers are the watches at the shards whose primary is this node.
type watchers struct {
	*input
	peers     *peers
	network   *network
	replica   *replica
	primary   *primary
	watches   *watches
	repeating bool // the timer for repeating changes runs
}

// watcher is a watch at the record's home.
type watcher struct {
	p       *peer
	number  uint64
	key     dht.Key
	shard   dht.Shard
	epoch   uint64
	version dht.Version // the last version known to be seen
	sent    dht.Version
	greet   bool // an answer is due, changed or not
	looking bool // the lookup for the answer is under way
}

// drop drops the watches of a lost node.
func (ws *watchers) drop(p *peer) {
	for _, sh := range ws.replica.held() {
		for _, k := range sh.watchedKeys() {
			for i := len(sh.watched[k]) - 1; i >= 0; i-- {
				if sh.watched[k][i].p == p {
					sh.drop(k, i)
				}
			}
		}
	}
}

// keepTelling repeats changes not acknowledged by watchers.
func (ws *watchers) keepTelling() {
	if ws.repeating {
		return
	}
	ws.repeating = true
	ws.in(watchEvery, func() {
		ws.repeating = false
		for _, sh := range ws.replica.held() {
			for _, k := range sh.watchedKeys() {
				for _, v := range sh.watched[k] {
					if v.version != v.sent && !v.greet {
						ws.report(v, sh.state(k))
					}
				}
			}
		}
	})
}

// onLookedUp answers a new watch, if the home could look up the record. If the lookup
// failed, because the disk accepts no entries or the shard moved, the watch stays
// unknown, and the watching node asks again later.
func (ws *watchers) onLookedUp(v *watcher, res dht.Result) {
	v.looking = false
	if res.Outcome != dht.Done && res.Outcome != dht.Absent || !v.greet {
		return
	}
	v.greet = false
	if sh := ws.replica.shards[v.shard]; sh != nil && res.Outcome == dht.Absent {
		if r := sh.records[v.key]; r != nil {
			res.Version = r.Version // of the removal
		}
	}
	ws.report(v, res)
}

// report sends a watcher the state of the record.
func (ws *watchers) report(v *watcher, res dht.Result) {
	v.sent = res.Version
	ws.show(v.p, v.change(res))
	ws.keepTelling()
}

func (v *watcher) change(res dht.Result) message.Change {
	return message.Change{Number: v.number, Shard: v.shard, Epoch: v.epoch, Key: v.key, Result: res}
}

// state returns a record for a watcher, or the version of the removal.
func (sh *shard) state(k dht.Key) dht.Result {
	res := sh.show(k, false)
	if r := sh.records[k]; r != nil {
		res.Version = r.Version
	}
	return res
}

// redirect reports the move of a shard's home to the watchers.
func (ws *watchers) redirect(sh *shard) {
	for _, k := range sh.watchedKeys() {
		for _, v := range sh.watched[k] {
			ws.show(v.p, v.change(dht.Result{Outcome: dht.OutcomeMoved}))
		}
	}
	sh.watched = nil
}

// tell sends a changed record to the watchers of the key.
func (ws *watchers) tell(sh *shard, k dht.Key) {
	for _, v := range sh.watched[k] {
		ws.report(v, sh.state(k))
	}
}

// watch registers a watch at this node, its home. A watch begins with a consistent
// lookup.
func (ws *watchers) watch(p *peer, w message.WatchedKey) {
	sh := ws.replica.shards[w.Shard]
	if sh == nil || !sh.home || sh.cfg.Epoch != w.Epoch {
		if !w.End {
			ws.show(p, message.Change{Number: w.Number, Shard: w.Shard, Epoch: w.Epoch, Key: w.Key, Result: dht.Result{Outcome: dht.OutcomeMoved}})
		}
		return
	}
	all := sh.watched[w.Key]
	i := slices.IndexFunc(all, func(v *watcher) bool { return v.p == p && v.number == w.Number })
	if w.End {
		if i >= 0 {
			sh.drop(w.Key, i)
		}
		return
	}
	if i >= 0 {
		all[i].greet, all[i].epoch = true, w.Epoch
	} else {
		if sh.watched == nil {
			sh.watched = map[dht.Key][]*watcher{}
		}
		i = len(all)
		all = append(all, &watcher{p: p, number: w.Number, key: w.Key, shard: w.Shard, epoch: w.Epoch, version: w.Version, sent: w.Version, greet: true})
		sh.watched[w.Key] = all
	}
	// While a replica is missing the watching node asks again and again.
	if v := sh.watched[w.Key][i]; !v.looking {
		v.looking = true
		op := &dht.Op{Code: dht.OpLookup, Key: w.Key, Consistent: true}
		ws.primary.submit(sh, job{op: op, watch: v})
	}
}

func (ws *watchers) onSeen(p *peer, m *message.Seen) {
	for _, x := range m.Seen {
		sh := ws.replica.shards[x.Shard]
		if sh == nil {
			continue
		}
		i := slices.IndexFunc(sh.watched[x.Key], func(v *watcher) bool { return v.p == p && v.number == x.Number })
		switch {
		case i < 0:
		case x.End:
			sh.drop(x.Key, i)
		case sh.watched[x.Key][i].sent == x.Version:
			sh.watched[x.Key][i].version = x.Version
		}
	}
}

func (ws *watchers) onWatch(p *peer, m *message.Watch) {
	for _, w := range m.Watches {
		ws.watch(p, w)
	}
}

func (ws *watchers) show(p *peer, c message.Change) {
	m := &message.Changed{Changes: []message.Change{c}}
	if p == ws.peers.me {
		ws.watches.onChanged(p, m)
		return
	}
	ws.network.send(p, m, 0)
}

func (sh *shard) drop(k dht.Key, i int) {
	sh.watched[k] = slices.Delete(sh.watched[k], i, i+1)
	if len(sh.watched[k]) == 0 {
		delete(sh.watched, k)
	}
}

func (sh *shard) watchedKeys() []dht.Key {
	keys := make([]dht.Key, 0, len(sh.watched))
	for k := range sh.watched { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
