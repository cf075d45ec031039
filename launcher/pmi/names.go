package pmi

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The name service of a job (MPI_Publish_name and its kin) lives at the root of the tree,
// and serves the ranks of this job only.

// nameOp is an operation of the name service.
type nameOp uint8

const (
	opPublish nameOp = iota
	opUnpublish
	opLookup
	opEnd
)

// names is the table at the root.
type names struct {
	ports map[string]string
}

// nameAsk is an unanswered question to the name service.
type nameAsk struct {
	id      uint32
	op      nameOp
	rank    filch.Rank
	thrid   string
	service string
	port    string
}

// nameAnswer is the answer; msg is "success" or a word for the error.
type nameAnswer struct {
	op   nameOp
	msg  string
	port string
}

func (n *names) do(op nameOp, service, port string) nameAnswer {
	a := nameAnswer{op: op, msg: "success"}
	old, ok := n.ports[service]
	switch {
	case op == opPublish && ok:
		a.msg = "key_already_present"
	case op == opPublish && len(n.ports) >= maxNames:
		a.msg = "too_many_names"
	case op == opPublish:
		if n.ports == nil {
			n.ports = map[string]string{}
		}
		n.ports[service] = port
	case !ok:
		a.msg = "service_not_found"
	case op == opUnpublish:
		delete(n.ports, service)
	default:
		a.port = old
	}
	return a
}

// askName answers at once where this node is the root. Any other node asks the root, and
// the rank waits.
func (e *Engine) askName(now time.Duration, c *client, q nameAsk, thrid string, out *Out) {
	bad := ""
	switch {
	case q.service == "":
		bad = "missing_service"
	case len(q.service) > maxValue || len(q.port) > maxValue:
		bad = "too_long"
	case c.due >= maxDue:
		bad = "too_many_requests"
	}
	if bad != "" {
		e.nameAnswered(c, nameAnswer{op: q.op, msg: bad}, thrid, out)
		return
	}
	if e.tree.root() {
		e.nameAnswered(c, e.names.do(q.op, q.service, q.port), thrid, out)
		return
	}
	e.asks++
	q.id, q.rank, q.thrid = e.asks, c.rank, thrid
	c.due++
	e.attrs.asked = append(e.attrs.asked, nameAsk{id: q.id, op: q.op, rank: c.rank, thrid: thrid})
	e.tree.parent().say(message{kind: kindName, node: e.cfg.Node, id: q.id, op: q.op, service: q.service, port: q.port})
	e.flush(now, out)
}

func (e *Engine) nameAnswered(c *client, a nameAnswer, thrid string, out *Out) {
	if c.v2 {
		e.nameAnswer2(c, a, thrid, out)
		return
	}
	e.nameAnswer1(c, a, out)
}

// nameUp passes a question on to the root, or answers at the root.
func (e *Engine) nameUp(m message, out *Out) {
	if !e.tree.root() {
		e.tree.parent().say(m)
		return
	}
	a := e.names.do(m.op, m.service, m.port)
	l := e.tree.toward(m.node)
	if l == nil {
		out.Notes = append(out.Notes, "dropped a question of a node that is not below this one")
		return
	}
	l.say(message{kind: kindAnswer, node: m.node, id: m.id, op: a.op, port: a.port, msg: a.msg})
}

// nameDown passes an answer on to the asking rank.
func (e *Engine) nameDown(m message, out *Out) {
	if m.node != e.cfg.Node {
		if l := e.tree.toward(m.node); l != nil {
			l.say(m)
		}
		return
	}
	i := slices.IndexFunc(e.attrs.asked, func(q nameAsk) bool { return q.id == m.id })
	if i < 0 {
		return
	}
	q := e.attrs.asked[i]
	e.attrs.asked = slices.Delete(e.attrs.asked, i, i+1)
	c := &e.ranks[e.at[q.rank]]
	c.due--
	if !c.gone && c.state == Inited {
		e.nameAnswered(c, nameAnswer{op: q.op, msg: m.msg, port: m.port}, q.thrid, out)
	}
}

// attrs holds the waits of this node's ranks besides fences: for node attributes of
// PMI-2, which never leave the node, and for answers of the root.
type attrs struct {
	vals    map[string]string
	waiting []attrWait
	asked   []nameAsk
}

// attrWait is a get waiting for its put.
type attrWait struct {
	rank  filch.Rank
	thrid string
	key   string
}

// drop removes the gets of a departed rank.
func (a *attrs) drop(r filch.Rank) {
	a.waiting = slices.DeleteFunc(a.waiting, func(w attrWait) bool { return w.rank == r })
}
