package trace

import (
	"bufio"
	"encoding/binary"
)

// perfetto writes Perfetto's packets: a trace is a sequence of packets, so that a packet is
// written when it is known, and forgotten. The numbers are those of the fields in Perfetto's
// protos/perfetto/trace.
type perfetto struct {
	out    *bufio.Writer
	start  int64
	packet []byte
	event  []byte
	sub    []byte
}

// Fields of the messages.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetDescriptor = 60

	descriptorUUID    = 1
	descriptorName    = 2
	descriptorProcess = 3
	descriptorThread  = 4
	descriptorParent  = 5
	descriptorCounter = 8

	processPID  = 1
	processName = 6
	threadPID   = 1
	threadTID   = 2
	threadName  = 5

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventName       = 23
	eventCounter    = 30
	eventFlow       = 47
	eventFlowEnd    = 48

	annotationInt  = 4
	annotationText = 6
	annotationName = 10
)

// Types of track events.
const (
	typeBegin   = 1
	typeEnd     = 2
	typeCounter = 4
)

// sequence is the number of the only writer of the trace.
const sequence = 1

// newPerfetto makes a writer; the descriptors of nodes get the time start, as Perfetto wants.
func newPerfetto(out *bufio.Writer, start int64) *perfetto { return &perfetto{out: out, start: start} }

func appendInt(b []byte, field int, v uint64) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3)
	return binary.AppendUvarint(b, v)
}

func appendBytes[T ~string | ~[]byte](b []byte, field int, v T) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendFixed(b []byte, field int, v uint64) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|1)
	return binary.LittleEndian.AppendUint64(b, v)
}

// uuid is the number of a track; of a node, the number of its process.
func uuid(t track) uint64 { return uint64(t.node+1)<<32 | uint64(tid(t)) }

func nodeUUID(node int32) uint64 { return uint64(node+1) << 32 }

// write writes a packet with a message.
func (p *perfetto) write(at int64, field int, message []byte) {
	p.packet = p.packet[:0]
	if at != 0 {
		p.packet = appendInt(p.packet, packetTimestamp, uint64(at))
	}
	p.packet = appendInt(p.packet, packetSequence, sequence)
	p.packet = appendBytes(p.packet, field, message)
	var head [binary.MaxVarintLen64 + 1]byte
	b := append(head[:0], tracePacket<<3|2)
	b = binary.AppendUvarint(b, uint64(len(p.packet)))
	_, _ = p.out.Write(b) // the writer remembers the error until Flush
	_, _ = p.out.Write(p.packet)
}

func (p *perfetto) node(node int32, name string) {
	p.sub = appendBytes(appendInt(p.sub[:0], processPID, uint64(node)+1), processName, name)
	p.event = appendBytes(appendInt(p.event[:0], descriptorUUID, nodeUUID(node)), descriptorProcess, p.sub)
	p.write(p.start, packetDescriptor, p.event)
}

func (p *perfetto) declare(t track) {
	p.event = appendInt(p.event[:0], descriptorUUID, uuid(t))
	p.event = appendInt(p.event, descriptorParent, nodeUUID(t.node))
	if t.lane == laneCounter {
		p.event = appendBytes(p.event, descriptorName, laneName(t.lane))
		p.event = appendBytes(p.event, descriptorCounter, "")
	} else {
		p.sub = appendInt(p.sub[:0], threadPID, uint64(t.node)+1)
		p.sub = appendInt(p.sub, threadTID, uint64(tid(t)))
		p.sub = appendBytes(p.sub, threadName, laneName(t.lane))
		p.event = appendBytes(p.event, descriptorThread, p.sub)
	}
	p.write(p.start, packetDescriptor, p.event)
}

func (p *perfetto) slice(t track, begin, end int64, name string, args []arg, from, to uint64) {
	e := appendInt(p.event[:0], eventType, typeBegin)
	e = appendInt(e, eventTrack, uuid(t))
	e = appendBytes(e, eventName, name)
	for i := range args {
		p.sub = appendBytes(p.sub[:0], annotationName, args[i].key)
		if args[i].text != "" {
			p.sub = appendBytes(p.sub, annotationText, args[i].text)
		} else {
			p.sub = appendInt(p.sub, annotationInt, uint64(args[i].num))
		}
		e = appendBytes(e, eventAnnotation, p.sub)
	}
	if from != 0 {
		e = appendFixed(e, eventFlow, from)
	}
	if to != 0 {
		e = appendFixed(e, eventFlowEnd, to)
	}
	p.event = e
	p.write(begin, packetEvent, e)
	p.event = appendInt(appendInt(p.event[:0], eventType, typeEnd), eventTrack, uuid(t))
	p.write(end, packetEvent, p.event)
}

func (p *perfetto) count(t track, at int64, n int64) {
	p.event = appendInt(appendInt(p.event[:0], eventType, typeCounter), eventTrack, uuid(t))
	p.event = appendInt(p.event, eventCounter, uint64(n))
	p.write(at, packetEvent, p.event)
}

func (p *perfetto) end() error { return p.out.Flush() }
