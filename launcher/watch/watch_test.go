package watch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/mtc/message"
)

func TestNotesBecomeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	w, err := watch.Open(path, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	w.Note(launcher.Note{Level: 0, Text: "job started", Job: 7, Node: "n2"})
	w.Note(launcher.Note{Level: -4, Text: "not shown"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Msg  string
		Job  int
		Peer string
	}
	if err := json.Unmarshal(b, &line); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if line.Msg != "job started" || line.Job != 7 || line.Peer != "n2" {
		t.Errorf("got %+v", line)
	}
}

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const limit = 1000
	f, err := watch.OpenFile(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 100 {
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".1"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > limit || !bytes.HasSuffix(b, line) {
			t.Errorf("%s: %d bytes, want at most %d in whole lines", name, len(b), limit)
		}
	}
	if names, _ := filepath.Glob(path + "*"); len(names) != 2 {
		t.Errorf("got %v, want two files", names)
	}
}

func TestLogRefusesALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Open(filepath.Join(dir, "log"), 0, false); err == nil {
		t.Error("a link was followed")
	}
}

func TestCounts(t *testing.T) {
	w := watch.Discard()
	w.Add(watch.Turns, 2)
	w.Add(watch.Turns, 1)
	if got := w.Counts()["turns"]; got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}

// Every message between many-task cores is counted by its own type.
func TestKinds(t *testing.T) {
	w := watch.Discard()
	all := []message.Message{
		&message.LoadAsk{}, &message.LoadSay{}, &message.WorkAsk{}, &message.WorkSay{}, &message.Steal{}, &message.Offer{}, &message.Done{},
		&message.News{}, &message.Void{}, &message.Told{}, &message.ToldAck{}, &message.Grown{},
	}
	want := map[string]uint64{"launcher.Ask": 2, "mtc.?": 2}
	for _, m := range all {
		w.Sent("n2", &launcher.TaskWord{Body: message.Encode(m)})
		want["mtc."+strings.TrimPrefix(fmt.Sprintf("%T", m), "*message.")] = 1
	}
	w.Sent("n2", &launcher.Ask{})
	w.Sent("n3", &launcher.Ask{})
	w.Sent("n3", &launcher.TaskWord{})
	w.Sent("n3", &launcher.TaskWord{Body: []byte{0}})
	if got := w.Kinds(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := w.Counts()["messages_out"]; got != 16 {
		t.Errorf("messages in all: got %d, want 16", got)
	}
}
