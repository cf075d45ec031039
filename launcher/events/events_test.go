package events

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// samples are events with all fields, and with none.
func samples() (list []Event) {
	for k := None + 1; k < numKinds; k++ {
		has := k.has()
		e := Event{UnixNS: -5, Seq: 1 << 40, Kind: k}
		list = append(list, e)
		if has&fieldJob != 0 {
			e.Job = 7
		}
		if has&fieldTask != 0 {
			e.Task, e.Tasks = 3, 2
		}
		if has&fieldTry != 0 {
			e.Try = 2
		}
		if has&fieldState != 0 {
			e.State = filch.Failed
		}
		if has&fieldCode != 0 {
			e.Code = -9
		}
		if has&fieldPeer != 0 {
			e.Peer = "n2"
		}
		if has&fieldCount != 0 {
			e.Count = 1 << 33
		}
		if has&fieldReason != 0 {
			e.Reason = "a \"reason\"\n"
		}
		if has&fieldRank != 0 {
			e.Count, e.Reason = 5, "0-3,8"
		}
		list = append(list, e)
	}
	return list
}

func encode(list []Event) (b []byte) {
	for i := range list {
		b = list[i].AppendTo(b)
	}
	return b
}

func TestEventsSurviveTheirEncoding(t *testing.T) {
	want := samples()
	got, err := Decode(encode(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Half an event is refused, wherever the bytes end.
func TestHalfAnEventIsRefused(t *testing.T) {
	b := encode(samples()[len(samples())-1:])
	for n := 1; n < len(b); n++ {
		if list, err := Decode(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are %+v", n, len(b), list)
		}
	}
}

func TestTasksOfATurnAreOneEvent(t *testing.T) {
	var list []Event
	for i := range int32(1000) {
		list = Append(list, Event{Kind: TaskStarted, Job: 1, Task: i, Tasks: 1, Try: 1})
		state := filch.OK
		if i == 500 {
			state = filch.Failed
		}
		list = Append(list, Event{Kind: TaskEnded, Job: 1, Task: i, Tasks: 1, Try: 1, State: state})
	}
	var got []string
	for i := range list {
		got = append(got, list[i].Kind.String()+" "+list[i].Of())
	}
	want := []string{"task-started 1.0-999", "task-ended 1.0-499", "task-ended 1.500", "task-ended 1.501-999"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An event without tasks joins no other, and a job's events do not join another's.
func TestOtherEventsStayApart(t *testing.T) {
	var list []Event
	for range 3 {
		list = Append(list, Event{Kind: StealTried, Peer: "n2"})
		list = Append(list, Event{Kind: TaskStarted, Job: filch.JobID(len(list)), Task: int32(len(list)), Tasks: 1})
	}
	if len(list) != 6 {
		t.Errorf("got %d events, want 6", len(list))
	}
}

// Every kind has a name of its own, and a line with the keys of the schema only.
func TestLinesHaveTheKeysOfTheTable(t *testing.T) {
	table := table()
	for _, e := range samples() {
		b, err := json.Marshal(LineOf("n1", &e))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(b, '\n') {
			t.Errorf("%s is not one line: %q", e.Kind, b)
		}
		row := rowOf(table, e.Kind.String())
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		for key := range m {
			if slices.Contains([]string{"v", "unix_ns", "node", "seq", "event"}, key) {
				continue
			}
			if !strings.Contains(row, "`"+key+"`") {
				t.Errorf("%s has the key %s, and the table says %s", e.Kind, key, row)
			}
		}
	}
}

func rowOf(table, kind string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| `"+kind+"` ") {
			return line
		}
	}
	return ""
}

// docs/events.md has the tables of the code. FILCH_GOLDEN=1 writes the tables.
func TestEventsDoc(t *testing.T) {
	const path, begin, end = "../../docs/events.md", "<!-- tables -->\n", "<!-- end of tables -->\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tables", path)
	}
	want := head + begin + table() + end + tail
	if os.Getenv("FILCH_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Errorf("%s is not what the code says: make golden", path)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	e := Event{Kind: Note, Peer: filch.NodeName(strings.Repeat("n", 100)), Reason: strings.Repeat("é", 200)}
	got, err := Decode(e.AppendTo(nil))
	if err != nil || len(got[0].Peer) != MaxPeer || len(got[0].Reason) != MaxReason {
		t.Errorf("got %+v, %v", got, err)
	}
	e.Reason = "x" + e.Reason
	got, err = Decode(e.AppendTo(nil))
	if err != nil || len(got[0].Reason) != MaxReason-1 {
		t.Errorf("got a text of %d bytes, %v: half a character is left", len(got[0].Reason), err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(samples()))
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(encode(list))
		if err != nil || len(list) > 0 && !reflect.DeepEqual(again, list) {
			t.Errorf("%+v becomes %+v, %v", list, again, err)
		}
		for i := range list {
			_, _ = list[i].Of(), list[i].Details()
			if _, err := json.Marshal(LineOf("n1", &list[i])); err != nil {
				t.Error(err)
			}
		}
	})
}
