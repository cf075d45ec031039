package daemon

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// inbound is the entry of all frames of other nodes. Package wire has the limit of each
// kind, and the kinds that a node may send.
type inbound struct {
	d     *Daemon
	kinds map[wire.Kind]nodeKind
}

// nodeKind is the handling of one kind: the classes that the kind may come on, and the
// handler.
type nodeKind struct {
	classes []overlay.Class
	handle  func(from filch.NodeName, f wire.Frame) error
}

func newInbound(d *Daemon) *inbound {
	control, metadata, bulk := []overlay.Class{overlay.Control}, []overlay.Class{overlay.Metadata}, []overlay.Class{overlay.Bulk}
	in := &inbound{d: d, kinds: map[wire.Kind]nodeKind{
		wire.KindRelay: {append(metadata, bulk...), d.routes.OnRelay},
		wire.KindAsk:   {control, d.questions.OnAsk},
		wire.KindReply: {control, d.questions.OnReply},
		wire.KindStore: {metadata, d.store.onMessage},
		wire.KindFetch: {metadata, d.files.OnFetch},
		wire.KindPart:  {bulk, d.files.OnPart},
	}}
	for k := range 256 {
		if k := wire.Kind(k); k.IsMessage() {
			in.kinds[k] = nodeKind{control, in.onMessage}
		}
	}
	return in
}

// receive handles a frame from another node. Frames arrive in order per peer and class.
func (in *inbound) receive(from filch.NodeName, c overlay.Class, payload []byte) {
	f, err := wire.ParsePayload(payload)
	if err == nil {
		err = in.dispatch(from, c, f)
	}
	if err != nil {
		in.d.in.Watch.Refused(watch.FramesBad, "node", err, from)
	}
}

func (in *inbound) dispatch(from filch.NodeName, c overlay.Class, f wire.Frame) error {
	k, handled := in.kinds[f.Kind]
	switch {
	case !f.Kind.On(wire.FromNode), !handled:
		return filch.Errorf(filch.Invalid, "a node does not send %s", f.Kind)
	case !slices.Contains(k.classes, c):
		return filch.Errorf(filch.Invalid, "%s came on the stream of class %s", f.Kind, c)
	}
	return k.handle(from, f)
}

// onMessage decodes a message of another Node for the loop.
func (in *inbound) onMessage(from filch.NodeName, f wire.Frame) error {
	m, err := wire.DecodeMessage(f.Kind, f.Body)
	if err != nil {
		return err
	}
	in.d.in.Watch.Add(watch.MessagesIn, 1)
	in.d.in.Post(func(t *inputs.Turn) { t.Node.Message(t.Now, from, m, t.Out) })
	return nil
}
