package wire_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sampleIdent = filch.Ident{Instance: "5f0c2a52-4b7e-4b0e-9d0e-1c2d3e4f5a6b", Job: 1025, Attempt: 1}

func sampleStart() launcher.Start {
	s := launcher.Start{
		Launch: launcher.Launch{Ident: sampleIdent, Name: "solver", Origin: "n1", Size: 16, KillWait: 10 * time.Second, Order: []byte("order")},
		Index:  3, Processors: []filch.Processor{{CPUs: []int32{0, 2}, Socket: 1}, {CPUs: []int32{1}, Core: 1, Domain: 1}}, Memory: 1 << 40, Go: true,
	}
	for i := range 8 {
		s.Launch.Nodes = append(s.Launch.Nodes, launcher.NodeRanks{
			Node: "node-17", Lease: filch.LeaseID{Incarnation: 1 << 60, Serial: uint64(i)},
			Ranks: []launcher.Span{{First: filch.Rank(2 * i), Count: 2}},
		})
	}
	return s
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	for _, v := range []any{
		sampleStart(),
		launcher.Request{Name: "x", Shape: launcher.Shape{Ranks: 4, Only: []filch.NodeName{"a", "b"}}, Policy: launcher.Policy{KillOnBad: true, WarnTime: time.Minute}, Order: []byte{0, 1}, Copy: &launcher.Copy{From: "n1", Bytes: 1, Sum: [32]byte{1, 2}, Name: "x", Dest: "/y"}},
		launcher.Order{
			Programs: []launcher.Program{{Argv: []string{"sh", "-c", "a\nb\x00\xff"}, Ranks: []launcher.Span{{First: 0, Count: 4}}, Env: []string{"A=1"}}},
			Cwd:      "/", Umask: 0o22, Rlimits: []launcher.Rlimit{{Resource: 7, Soft: 1<<64 - 1}},
			IO: launcher.IO{OutRank: -1, Label: true}, Pty: &launcher.Window{Rows: 24, Cols: 80},
		},
		launcher.Deed{Ident: sampleIdent, Kind: launcher.DeedStop, Signal: 15, Grace: time.Second, Reason: "cancelled"},
		launcher.RanksWired{Ident: sampleIdent, Took: time.Second},
		launcher.RanksEnded{Ident: sampleIdent, Ends: []launcher.RankEnd{{Rank: 2, Kind: launcher.CauseSignal, Code: 11, Core: true, Usage: filch.Usage{User: time.Second, PeakBytes: 1 << 33}}}},
		launcher.KeeperReady{Ident: sampleIdent, Err: filch.Errorf(filch.NotFound, "no such file").WithHint("h")},
		launcher.Ended{Job: 7, State: filch.Failed, Code: 139, Cause: launcher.Cause{Rank: -1, Text: "x"}},
		wire.Query{Verb: "ps", Args: []string{"-a"}},
		wire.Answer{JSON: []byte("{}"), Err: filch.Errorf(filch.Busy, "no")},
	} {
		t.Run(reflect.TypeOf(v).String(), func(t *testing.T) {
			b, err := wire.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			got := reflect.New(reflect.TypeOf(v))
			if err := wire.Unmarshal(b, got.Interface()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(v, got.Elem().Interface()); d != "" {
				t.Error(d)
			}
		})
	}
}

// An answer in parts is an answer: for a reader of this version, which does not copy the
// JSON, and for a reader of an older version.
func TestAnswerInParts(t *testing.T) {
	bad := filch.Errorf(filch.Busy, "no").WithHint("later")
	for name, a := range map[string]wire.Answer{
		"empty": {JSON: []byte{}},
		"json":  {JSON: []byte(`{"a":1}`)},
		"large": {JSON: bytes.Repeat([]byte("x"), 300_000)},
		"error": {JSON: []byte{}, Err: bad},
		"both":  {JSON: []byte("{}"), Err: bad},
	} {
		t.Run(name, func(t *testing.T) {
			head, data, tail, err := a.Parts()
			if err != nil {
				t.Fatal(err)
			}
			b := slices.Concat(head, data, tail)
			got, err := wire.DecodeAnswer(b)
			if d := cmp.Diff(a, got); err != nil || d != "" {
				t.Errorf("in parts: %v\n%s", err, d)
			}
			if len(a.JSON) > 0 && &got.JSON[0] != &b[len(head)] {
				t.Error("the JSON was copied")
			}
			var older wire.Answer
			if err := wire.Unmarshal(b, &older); err != nil || cmp.Diff(a, older) != "" {
				t.Errorf("an older reader: %v\n%s", err, cmp.Diff(a, older))
			}
			whole, err := wire.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := wire.DecodeAnswer(whole); err != nil || cmp.Diff(a, got) != "" {
				t.Errorf("from an older writer: %v\n%s", err, cmp.Diff(a, got))
			}
			for n := range min(len(b), 64) {
				if _, err := wire.DecodeAnswer(b[:n]); err == nil {
					t.Errorf("%d of %d bytes were decoded", n, len(b))
				}
			}
			if _, err := wire.DecodeAnswer(append(b, 0)); err == nil {
				t.Error("a byte too many was decoded")
			}
		})
	}
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	for _, e := range []launcher.Event{
		launcher.Accepted{Job: 1, Size: 2},
		launcher.Refused{Err: filch.Error{Text: "x"}, Code: 125},
		launcher.StillWaiting{Job: 1, Text: "y"},
		launcher.Started{Job: 1, Size: 3, Waited: time.Second},
		launcher.Granted{Job: 1, Step: 2},
		launcher.RankEnds{Job: 1, Ranks: []launcher.RankEnd{{Rank: 3, Kind: launcher.CauseExit, Code: 7}}},
		launcher.Ending{Job: 1, Text: "z"},
		launcher.Ended{Job: 1, State: filch.OK},
	} {
		k, b, err := wire.EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodeEvent(k, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Error(d)
		}
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	lease := filch.LeaseID{Incarnation: 9, Serial: 4}
	for _, m := range []launcher.Message{
		&launcher.Ask{Job: 1, Attempt: 1, Ticket: filch.Ticket{UnixNS: 1 << 60, Job: 1}, Want: 4, Round: 2, Half: true},
		&launcher.Grant{Job: 1, Lease: lease, Held: 3, Version: 7}, &launcher.Release{Job: 1, Round: 3},
		&launcher.Dispatch{Launch: sampleStart().Launch, Index: 3, Direct: true},
		&launcher.Progress{Job: 1, Phase: launcher.PhaseDone, Err: filch.Error{Text: "x"}, Ends: []launcher.RankEnd{{Rank: 1}}},
		&launcher.ProgressAck{Job: 1, Have: 3}, &launcher.Proceed{Job: 1, Tree: true},
		&launcher.Halt{Job: 1, Grace: time.Second, Reason: "r"}, &launcher.Signals{Job: 1, Sigs: []int32{2, 15}}, &launcher.SignalsAck{Job: 1},
		&launcher.Renew{Incarnation: 1, Leases: []launcher.Renewal{{Job: 1, Index: -1, Lease: lease}}},
		&launcher.StepAsk{Job: 2, Parent: 1, Calling: "n1"}, &launcher.StepGrant{Job: 2, Refused: true},
		&launcher.StepDone{Job: 2}, &launcher.StepDoneAck{Job: 2},
		&launcher.TakeOver{Job: 2, Attempt: 1, Index: 3, Hop: 1},
		&launcher.RanksAsk{Owner: "n1", Incarnation: 3, Run: 2, Attempt: 1},
		&launcher.RanksLeft{Owner: "n1", Incarnation: 3, Run: 2, Left: 4},
	} {
		k, b, err := wire.EncodeMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Payload(k, 0, b); err != nil {
			t.Error(err)
		}
		got, err := wire.DecodeMessage(k, b)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Errorf("%T: %s", m, d)
		}
	}
}

func TestHelloRefusesAnotherVersion(t *testing.T) {
	b, err := wire.EncodeHello(wire.Hello{Role: "client", Build: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := wire.DecodeHello(b)
	if err != nil || h.Role != "client" {
		t.Fatalf("got %+v, %v", h, err)
	}
	b[6] = wire.Version + 1
	_, err = wire.DecodeHello(b)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d", wire.Version+1)) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", wire.Version)) {
		t.Errorf("got %v, want an error that names versions %d and %d", err, wire.Version+1, wire.Version)
	}
	if _, err = wire.DecodeHello([]byte("GET / HTTP/1.1\r\n")); err == nil {
		t.Error("another protocol was accepted")
	}
}

func TestRefusalCarriesTextAndHint(t *testing.T) {
	got := wire.DecodeRefusal(wire.EncodeRefusal("no", "do this"))
	if got.Text != "no" || got.Hint != "do this" {
		t.Errorf("got %+v", got)
	}
}

func TestDataPlaneHeaders(t *testing.T) {
	o := wire.Output{Index: 3, Rank: 70000, Offset: 1 << 40, Stream: 2, Partial: true, Data: []byte("line")}
	got, err := wire.DecodeOutput(append(o.Head(nil), o.Data...))
	if err != nil || cmp.Diff(o, got) != "" {
		t.Errorf("output: %v %s", err, cmp.Diff(o, got))
	}
	s := wire.Stdin{Offset: 9, EOF: true, Data: []byte("in")}
	gotS, err := wire.DecodeStdin(append(s.Head(nil), s.Data...))
	if err != nil || cmp.Diff(s, gotS) != "" {
		t.Errorf("stdin: %v %s", err, cmp.Diff(s, gotS))
	}
	p := wire.Place{Index: 1, Offset: wire.NoStdin}
	gotP, err := wire.DecodePlace(p.Encode())
	if err != nil || gotP != p {
		t.Errorf("place: %v %+v", err, gotP)
	}
	f := wire.PeerFrame{From: 1, To: 2, Body: []byte("fence")}
	gotF, err := wire.DecodePeerFrame(append(f.Head(nil), f.Body...))
	if err != nil || cmp.Diff(f, gotF) != "" {
		t.Errorf("peer frame: %v %s", err, cmp.Diff(f, gotF))
	}
	k := wire.KinFrame{ToJob: 7, FromJob: 8, ToAttempt: 1, FromAttempt: 2, To: "n1", From: "node-2", Body: []byte("word")}
	gotK, err := wire.DecodeKinFrame(append(k.Head(nil), k.Body...))
	if err != nil || cmp.Diff(k, gotK) != "" {
		t.Errorf("kin frame: %v %s", err, cmp.Diff(k, gotK))
	}
	if back, err := wire.DecodeKinFrame(k.Back().Head(nil)); err != nil || back.ToJob != 8 || back.From != "n1" || len(back.Body) > 0 {
		t.Errorf("back: %v %+v", err, back)
	}
	r := wire.Relay{Attempt: 2, Kind: wire.KindOutput, Body: []byte("x")}
	gotR, err := wire.DecodeRelay(append(r.Head(nil), r.Body...))
	if err != nil || cmp.Diff(r, gotR) != "" {
		t.Errorf("relay: %v %s", err, cmp.Diff(r, gotR))
	}
}

func TestDataPlaneRefuses(t *testing.T) {
	bad := wire.Output{Index: -1, Stream: 1}
	if _, err := wire.DecodeOutput(bad.Head(nil)); err == nil {
		t.Error("negative index accepted")
	}
	bad = wire.Output{Stream: 3}
	if _, err := wire.DecodeOutput(bad.Head(nil)); err == nil {
		t.Error("stream 3 accepted")
	}
	if _, err := wire.DecodePlace([]byte{1}); err == nil {
		t.Error("short place accepted")
	}
	r := wire.Relay{Kind: wire.KindStart}
	if _, err := wire.DecodeRelay(r.Head(nil)); err == nil {
		t.Error("a relay of a start accepted")
	}
}

func TestQueryIsBounded(t *testing.T) {
	b, _ := wire.Marshal(wire.Query{Verb: strings.Repeat("v", 100)})
	if _, err := wire.DecodeQuery(b); err == nil {
		t.Error("a verb of 100 bytes was accepted")
	}
}

func TestPayloadKeepsLimits(t *testing.T) {
	if _, err := wire.Payload(wire.KindLease, 0, []byte{1}); err == nil {
		t.Error("a lease with a body was made")
	}
	b, err := wire.Payload(wire.KindRelay, 7, []byte("ab"), []byte("c"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := wire.ParsePayload(b)
	if err != nil || f.Kind != wire.KindRelay || f.Req != 7 || !bytes.Equal(f.Body, []byte("abc")) {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err := wire.ParsePayload([]byte{250, 0, 0, 0, 0}); err == nil {
		t.Error("an unknown kind was accepted")
	}
}

func FuzzPayload(f *testing.F) {
	for k := range 256 {
		f.Add(byte(k), []byte{0x90})
	}
	b, _ := wire.Marshal(sampleStart())
	f.Add(byte(wire.KindStart), b)
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		fr, err := wire.ParsePayload(append([]byte{k, 0, 0, 0, 1}, b...))
		if err != nil {
			return
		}
		_, _ = wire.DecodeEvent(fr.Kind, fr.Body)
		_, _ = wire.DecodeKeeper(fr.Kind, fr.Body)
		_, _ = wire.DecodeMessage(fr.Kind, fr.Body)
		_, _ = wire.DecodeOutput(fr.Body)
		_, _ = wire.DecodeStdin(fr.Body)
		_, _ = wire.DecodePlace(fr.Body)
		_, _ = wire.DecodePeerFrame(fr.Body)
		_, _ = wire.DecodeRelay(fr.Body)
		if k, err := wire.DecodeKinFrame(fr.Body); err == nil && !bytes.Equal(append(k.Head(nil), k.Body...), fr.Body) {
			t.Errorf("%q is not what it was", fr.Body)
		}
		_, _ = wire.DecodeHello(fr.Body)
		_, _ = wire.DecodeQuery(fr.Body)
		_ = wire.DecodeRefusal(fr.Body)
		var s launcher.Start
		_ = wire.Unmarshal(fr.Body, &s)
		var o launcher.Order
		_ = wire.Unmarshal(fr.Body, &o)
		var r launcher.Request
		_ = wire.Unmarshal(fr.Body, &r)
	})
}
