package pmi

// Tests of what the package does not export: the parsers and the codec.

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"cmd=init pmi_version=1 pmi_subversion=1", "cmd=put kvsname=a key=b value=c d=e", "cmd=", "=", "garbage",
		"cmd=abort exitcode=1 message=a b", "mcmd=spawn", "cmd=a  b=c ", "cmd=x y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseLine(s)
		if err != nil {
			return
		}
		if l.cmd == "" || strings.Contains(l.cmd, " ") || len(l.attrs) > maxAttrs {
			t.Fatalf("%q has the command %q and %d attributes", s, l.cmd, len(l.attrs))
		}
		for _, a := range l.attrs {
			if a.key == "" || len(a.key) > maxWord || strings.ContainsAny(a.key+a.val, "\n\x00") {
				t.Fatalf("%q has the attribute %q=%q", s, a.key, a.val)
			}
		}
	})
}

// FuzzSpawnBlock reads the lines of an mcmd: whatever comes, a program that is taken has a
// name, ranks, and no more of anything than the limits.
func FuzzSpawnBlock(f *testing.F) {
	f.Add("nprocs=2\nexecname=a\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=x=y z\npreput_num=1\npreput_key_0=k\npreput_val_0=v\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/")
	f.Add("nprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=1000000")
	f.Fuzz(func(t *testing.T, s string) {
		var b block
		for line := range strings.SplitSeq(s, "\n") {
			b.add(line)
		}
		app, preput, sofar, total, bad := readBlock(b.lines)
		if sofar < 1 || total < sofar || total > maxSpawnApps {
			t.Fatalf("%q is program %d of %d", s, sofar, total)
		}
		if bad == "" && (app.Ranks < 1 || app.Argv[0] == "" || len(app.Argv) > len(b.lines)+1 || len(preput) > maxSpawnPairs || len(app.Info) > maxSpawnPairs) {
			t.Fatalf("%q is %+v with %+v", s, app, preput)
		}
	})
}

// FuzzSpawn2 does the same for PMI-2.
func FuzzSpawn2(f *testing.F) {
	f.Add("cmd=spawn;ncmds=1;preputcount=1;ppkey0=a;ppval0=b;subcmd=./a;maxprocs=2;argc=1;argv0=x;infokeycount=1;infokey0=wdir;infoval0=/;")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseMessage(s)
		if err != nil {
			return
		}
		apps, _, bad := readSpawn2(l)
		for _, a := range apps {
			if bad == "" && (a.Ranks < 1 || a.Argv[0] == "") {
				t.Fatalf("%q has the program %+v", s, a)
			}
		}
	})
}

func FuzzMessage2(f *testing.F) {
	f.Add("cmd=kvs-put;key=a;value=b;;c;")
	f.Add("cmd=a;thrid=1;")
	f.Add("cmd=a;b=;;;")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseMessage(s)
		if err != nil {
			return
		}
		again, err := parseMessage(strings.TrimPrefix(reply2(l.cmd, "", l.attrs...)[lengthBytes:], ""))
		l.cmd += "-response"
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%q is %q, and written and read again %q, %v", s, l, again, err)
		}
	})
}

func FuzzLength(f *testing.F) {
	f.Add([]byte("38    "))
	f.Add([]byte("    -1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > lengthBytes {
			b = b[:lengthBytes]
		}
		if n, ok := parseLength(b); ok && (n < 0 || n > 999_999) {
			t.Fatalf("%q is the length %d", b, n)
		}
	})
}

// FuzzEngine has two ranks, of which one says anything, and a neighbor that
// does too. Whatever comes, the engine holds to its limits, the other rank is
// served, and time does not stop.
func FuzzEngine(f *testing.F) {
	const in = "cmd=init pmi_version=1 pmi_subversion=1\n"
	f.Add([]byte(in+"cmd=put kvsname=k key=a value=b\ncmd=barrier_in\n"), []byte{}, 3)
	f.Add([]byte(in+"mcmd=spawn\nnprocs=1\ntotspawns=2\nspawnssofar=1\nendcmd\nmcmd=x\nendcmd\n"), []byte{1, 1}, 1)
	f.Add([]byte("cmd=init pmi_version=2 pmi_subversion=0\n38    cmd=fullinit;pmirank=0;threaded=FALSE;14    cmd=kvs-fence;"), []byte{}, 5)
	f.Add([]byte("cmd=init pmi_version=2 pmi_subversion=0\n21    cmd=fullinit;thrid=1;33    cmd=info-getnodeattr;key=a;wait=TRUE;"), []byte{}, 9)
	l := newLink(0)
	for _, m := range []message{
		{kind: kindUp, fence: 1, last: true, count: counts{in: 1}, pairs: []byte("\x00\x01\x00\x01ab")},
		{kind: kindName, node: 1, id: 1, op: opPublish, service: "s", port: "p"},
		{kind: kindDown, fence: 1, last: true},
	} {
		f.Add([]byte(in+"cmd=barrier_in\n"), l.frame(m.kind, 1, m.encode()), 7)
	}
	f.Fuzz(func(t *testing.T, said, frame []byte, step int) {
		step = max(1, min(step, 4096))
		e := New(Config{Kvsname: "k", Size: 3, Local: []filch.Rank{0, 1}, Nodes: 2, Early: time.Second, Mapping: "(vector,(0,2,2))"})
		var out Out
		e.Feed(0, 1, []byte(in), &out)
		for i := 0; i < len(said); i += step {
			e.Feed(time.Duration(i), 0, said[i:min(i+step, len(said))], &out)
			e.Peer(time.Duration(i), 1, frame, &out)
		}
		now := time.Duration(len(said))
		for range 200 {
			d := e.Deadline()
			if d == filch.Never {
				break
			}
			now = max(now, d)
			e.Tick(now, &out)
			if d := e.Deadline(); d <= now && d != filch.Never {
				t.Fatalf("still due at %v after a tick at %v", d, now)
			}
		}
		for i := range e.ranks {
			if n := cap(e.ranks[i].buf); n > 2*(maxLine+4096) {
				t.Fatalf("rank %d makes us hold %d bytes", i, n)
			}
		}
		out.Reset()
		e.Feed(now, 1, []byte("cmd=get_appnum\n"), &out)
		if len(out.Writes) != 1 || string(out.Writes[0].Data) != "cmd=appnum appnum=0\n" {
			if e.State(1) != Broken {
				t.Fatalf("rank 1, %v, was answered %q, breaks %v", e.State(1), out.Writes, out.Breaks)
			}
		}
	})
}

func FuzzCodec(f *testing.F) {
	for _, m := range samples() {
		f.Add(byte(m.kind), m.encode())
	}
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		m, ok := decode(kind(k), b)
		if !ok {
			return
		}
		if again := m.encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x was read as %+v and written as %x", b, m, again)
		}
		if len(m.service) > maxValue || len(m.port) > maxValue || m.node < 0 || m.count.in < 0 || len(m.pairs) > maxChunk {
			t.Fatalf("%x is beyond the limits: %+v", b, m)
		}
	})
}

func samples() []message {
	return []message{
		{kind: kindAck},
		{kind: kindUp, fence: 1, count: counts{in: 3, out: 1, who: 2, why: goneInited}, pairs: []byte("\x00\x01\x00\x02abc")},
		{kind: kindUp, fence: 2, last: true, count: counts{in: 1}},
		{kind: kindDown, fence: 2, last: true, pairs: []byte("\x00\x01\x00\x00a")},
		{kind: kindAsk, fence: 7},
		{kind: kindStuck, count: counts{in: 1, out: 1, who: 9}},
		{kind: kindName, node: 3, id: 4, op: opLookup, service: "s"},
		{kind: kindAnswer, node: 3, id: 4, op: opLookup, service: "", port: "p", msg: "success"},
	}
}

func TestCodecRefuses(t *testing.T) {
	for _, m := range samples() {
		b := m.encode()
		got, ok := decode(m.kind, b)
		if len(m.pairs) == 0 {
			got.pairs = nil
		}
		if !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, ok)
		}
		for i := range b {
			// A cut between two pairs, or before the first, is whole again.
			if got, ok := decode(m.kind, b[:i]); ok && len(got.pairs) == len(m.pairs) {
				t.Errorf("the first %d bytes of kind %d were taken", i, m.kind)
			}
		}
		if _, ok := decode(m.kind, append(b, 0)); ok {
			t.Errorf("a byte too many was taken in kind %d", m.kind)
		}
	}
	for name, m := range map[string]message{
		"long-service": {kind: kindName, service: strings.Repeat("s", maxValue+1)},
		"bad-op":       {kind: kindName, op: opEnd},
		"negative":     {kind: kindStuck, count: counts{in: -1}},
		"bad-who":      {kind: kindStuck, count: counts{who: -2}},
		"bad-why":      {kind: kindStuck, count: counts{why: goneEnd}},
		"many-pairs":   {kind: kindDown, pairs: bytes.Repeat([]byte("\x00\x01\x00\x01ab"), maxChunk/6+1)},
		"empty-key":    {kind: kindDown, pairs: []byte{0, 0, 0, 0}},
		"long-value":   {kind: kindDown, pairs: append([]byte{0, 1, 4, 1}, make([]byte, 1026)...)},
	} {
		if _, ok := decode(m.kind, m.encode()); ok {
			t.Errorf("%s was taken", name)
		}
	}
	if _, ok := decode(99, nil); ok {
		t.Error("an unknown kind was taken")
	}
}

func TestChunksFillFrames(t *testing.T) {
	var c chunks
	want := 0
	for i := range 10_000 {
		p := pair{fmt.Sprintf("key-%d", i), strings.Repeat("v", i%1000)}
		want += len(p.key) + len(p.val) + pairOverhead
		c.add(p)
	}
	got := 0
	for i, b := range c.list {
		got += len(b)
		if len(b) > maxChunk || i < len(c.list)-1 && len(b) < maxChunk-maxKey-maxValue-pairOverhead {
			t.Errorf("chunk %d has %d bytes", i, len(b))
		}
	}
	if got != want || c.bytes != want {
		t.Errorf("%d bytes in the chunks, %d counted, want %d", got, c.bytes, want)
	}
}

func TestTreeRoutes(t *testing.T) {
	for _, nodes := range []int32{1, 2, 17, 18, 300, 5000} {
		trees := make([]tree, nodes)
		for i := range trees {
			trees[i] = newTree(int32(i), nodes)
		}
		for i := int32(1); i < nodes; i++ {
			at := int32(0)
			for hops := 0; at != i; hops++ {
				l := trees[at].toward(i)
				if l == nil || hops > 4 {
					t.Fatalf("of %d nodes, no way from %d to %d", nodes, at, i)
				}
				at = l.peer
			}
			if up := trees[i].parent().peer; trees[up].link(i) == nil || trees[i].toward(up) != nil {
				t.Fatalf("of %d nodes, %d and its parent %d disagree", nodes, i, up)
			}
		}
	}
}
