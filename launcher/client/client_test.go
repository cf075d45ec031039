package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/submit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a launcher that says what a test wants.
type fake struct {
	t   *testing.T
	dir place.Dir
	l   net.Listener
}

func newFake(t *testing.T) *fake {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "fk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	f := &fake{t: t, dir: place.Dir{Base: filepath.Join(base, "b"), Instance: "brave-otter", Node: "n1"}}
	if err := f.dir.Make(); err != nil {
		t.Fatal(err)
	}
	f.listen()
	return f
}

func (f *fake) listen() {
	f.t.Helper()
	l, err := net.Listen("unix", f.dir.Socket())
	if err != nil {
		f.t.Fatal(err)
	}
	f.l = l
	f.t.Cleanup(func() { l.Close() })
}

// accept takes a client and reads its greeting and its first frame.
func (f *fake) accept() (*wire.Conn, wire.Frame, error) {
	sock, err := f.l.Accept()
	if err != nil {
		return nil, wire.Frame{}, err
	}
	c := wire.NewConn(sock)
	if fr, err := c.Read(); err != nil || fr.Kind != wire.KindHello {
		return c, fr, fmt.Errorf("the first frame is %s: %w", fr.Kind, err)
	}
	fr, err := c.Read()
	return c, fr, err
}

// serve runs a launcher's part and reports what went wrong with it.
func (f *fake) serve(part func() error) {
	done := make(chan error, 1)
	go func() { done <- part() }()
	f.t.Cleanup(func() {
		select {
		case err := <-done:
			if err != nil {
				f.t.Errorf("the launcher's part: %v", err)
			}
		case <-time.After(10 * time.Second):
			f.t.Error("the launcher's part did not end")
		}
	})
}

func (f *fake) dial() *client.Client {
	f.t.Helper()
	c, err := client.DialDir(f.dir, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func TestQuery(t *testing.T) {
	f := newFake(t)
	f.serve(func() error {
		c, fr, err := f.accept()
		if err != nil {
			return err
		}
		defer c.Close()
		q, err := wire.DecodeQuery(fr.Body)
		if err != nil || q.Verb != "ps" {
			return fmt.Errorf("got %+v, %w", q, err)
		}
		// An answer to a query that was given up comes first.
		if err := c.Write(wire.KindAnswer, fr.Req+100, wire.Answer{JSON: []byte("late")}); err != nil {
			return err
		}
		if err := c.Send(wire.KindAnswer, fr.Req, wire.Answer{JSON: []byte("[]")}); err != nil {
			return err
		}
		if fr, err = c.Read(); err != nil {
			return err
		}
		return c.Send(wire.KindAnswer, fr.Req, wire.Answer{Err: filch.Errorf(filch.NotFound, "no").WithHint("do")})
	})
	c := f.dial()
	defer c.Close()
	b, err := c.Query(5*time.Second, "ps")
	if err != nil || string(b) != "[]" {
		t.Errorf("got %q, %v", b, err)
	}
	_, err = c.Query(5*time.Second, "info", "9")
	var e *filch.Error
	if !errors.As(err, &e) || e.Kind != filch.NotFound || e.Hint != "do" {
		t.Errorf("got %v", err)
	}
}

// A launcher whose process was stopped takes connections and answers nothing.
func TestSubmissionsGiveUp(t *testing.T) {
	for _, kind := range []string{"run", "tasks"} {
		f := newFake(t)
		f.serve(func() error {
			c, _, err := f.accept()
			if err != nil {
				return err
			}
			defer c.Close()
			if fr, err := c.Read(); err == nil {
				return fmt.Errorf("%s: the client sends %s after it gave up", kind, fr.Kind)
			}
			return nil
		})
		c := f.dial()
		c.SetPatience(20*time.Millisecond, 60*time.Millisecond)
		said, err := 0, error(nil)
		if kind == "run" {
			var r *client.Run
			if r, err = c.Submit(&launcher.Request{}); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				var e any
				if e, err = r.Next(); err == nil {
					said++
					if w, is := e.(launcher.StillWaiting); !is || w.Text != "the launcher of brave-otter on n1 has not answered for 20ms" {
						t.Errorf("%s: got %+v", kind, e)
					}
				}
			}
		} else {
			said = 1
			job, e := c.SubmitTasks(&submit.Job{})
			if e != nil {
				t.Fatal(e)
			}
			_, err = job.Next()
		}
		var e *filch.Error
		if !errors.As(err, &e) || e.Kind != filch.Timeout || e.Hint == "" || said != 1 {
			t.Errorf("%s: said %d times, and ended with %v", kind, said, err)
		}
	}
}

// A launcher whose disk is full answers other questions: a client that gives up says why, and that
// the job may still be accepted.
func TestSubmissionsGiveUpOnAFullDisk(t *testing.T) {
	const full = "the disk of n1 accepts no records: no space left on device"
	f := newFake(t)
	f.serve(func() error {
		c, _, err := f.accept()
		if err != nil {
			return err
		}
		defer c.Close()
		if fr, err := c.Read(); err == nil {
			return fmt.Errorf("the client sends %s after it gave up", fr.Kind)
		}
		again, _, err := f.accept()
		if err != nil {
			return err
		}
		defer again.Close()
		list, err := json.Marshal([]wire.RosterInfo{{Node: "n1", Trouble: full}})
		if err != nil {
			return err
		}
		return again.Send(wire.KindAnswer, 1, wire.Answer{JSON: list})
	})
	c := f.dial()
	c.SetPatience(time.Minute, 60*time.Millisecond)
	job, err := c.SubmitTasks(&submit.Job{Name: "bread"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = job.Next()
	var e *filch.Error
	const hint = "The job may still be accepted: look for bread in filch ps -a before you submit again"
	if !errors.As(err, &e) || e.Kind != filch.Timeout || e.Text != "the submission was not recorded within 60ms: "+full || e.Hint != hint {
		t.Errorf("got %+v", e)
	}
}

func TestQueryGivesUp(t *testing.T) {
	f := newFake(t)
	hold := make(chan struct{})
	defer close(hold)
	f.serve(func() error {
		c, _, err := f.accept()
		if err != nil {
			return err
		}
		<-hold
		return c.Close()
	})
	c := f.dial()
	defer c.Close()
	_, err := c.Query(20*time.Millisecond, "ps")
	var e *filch.Error
	if !errors.As(err, &e) || e.Kind != filch.Timeout {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestRefusalIsTold(t *testing.T) {
	f := newFake(t)
	f.serve(func() error {
		c, _, err := f.accept()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.WriteRaw(wire.KindRefusal, 0, wire.EncodeRefusal("the peer speaks wire version 9, this is version 1", "use one build")); err != nil {
			return err
		}
		return c.Drain(time.Second)
	})
	c := f.dial()
	defer c.Close()
	_, err := c.Query(5*time.Second, "ps")
	var e *filch.Error
	if !errors.As(err, &e) || !strings.Contains(e.Text, "version 9") || e.Hint != "use one build" {
		t.Errorf("got %v", err)
	}
}

func output(c *wire.Conn, index int32, at uint64, text string) error {
	o := wire.Output{Index: index, Offset: at, Stream: 1}
	return c.WriteRaw(wire.KindOutput, 0, o.Head(nil), []byte(text))
}

// A launcher that was started anew repeats what it does not know was seen.
func TestRunTakesUpAgain(t *testing.T) {
	f := newFake(t)
	f.serve(func() error {
		c, fr, err := f.accept()
		if err != nil || fr.Kind != wire.KindSubmit {
			return fmt.Errorf("got %s: %w", fr.Kind, err)
		}
		_ = c.Write(wire.KindAccepted, 0, launcher.Accepted{Job: 7, Size: 2})
		_ = output(c, 0, 0, "one\n")
		_ = output(c, 1, 0, "eins\n")
		_ = c.Drain(time.Second)
		_ = c.Close()
		_ = f.l.Close()
		f.listen()
		c, fr, err = f.accept()
		if err != nil {
			return err
		}
		defer c.Close()
		var re wire.Reattach
		if err := wire.Unmarshal(fr.Body, &re); err != nil || re.Job != 7 || len(re.Seen) != 2 {
			return fmt.Errorf("got %s %+v: %w", fr.Kind, re, err)
		}
		_ = c.Write(wire.KindAccepted, 0, launcher.Accepted{Job: 7})
		_ = output(c, 0, 0, "one\n")        // seen
		_ = output(c, 1, 0, "eins\nzwei\n") // half of it seen
		_ = output(c, 0, 4, "two\n")
		_ = c.Write(wire.KindEnded, 0, launcher.Ended{Job: 7, State: filch.OK})
		return c.Drain(time.Second)
	})
	run, err := f.dial().Submit(&launcher.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	var got strings.Builder
	for {
		v, err := run.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch v := v.(type) {
		case launcher.Accepted:
			got.WriteString("accepted ")
		case wire.Output:
			fmt.Fprintf(&got, "%d:%s ", v.Index, strings.ReplaceAll(string(v.Data), "\n", "."))
		case launcher.Ended:
			if want := "accepted 0:one. 1:eins. 1:zwei. 0:two. "; got.String() != want {
				t.Errorf("got %q, want %q", got.String(), want)
			}
			return
		}
	}
}

func TestRunGivesUpOnALauncherThatStaysAway(t *testing.T) {
	f := newFake(t)
	f.serve(func() error {
		c, _, err := f.accept()
		if err != nil {
			return err
		}
		_ = c.Send(wire.KindAccepted, 0, launcher.Accepted{Job: 7})
		_ = f.l.Close()
		return c.Close()
	})
	run, err := f.dial().Submit(&launcher.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if v, err := run.Next(); err != nil {
		t.Fatalf("got %v, %v", v, err)
	}
	began := time.Now()
	_, err = run.Next()
	var e *filch.Error // the job has the end of a lost node on the other nodes, too
	if !errors.As(err, &e) || e.Kind != filch.NodeLost || !strings.Contains(e.Text, "job 7 is killed") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took < client.RedialWait || took > 2*client.RedialWait {
		t.Errorf("took %v, want %v", took, client.RedialWait)
	}
}

func TestDialWithoutALauncher(t *testing.T) {
	f := newFake(t)
	f.l.Close()
	_, err := client.DialDir(f.dir, "test")
	var e *filch.Error
	if !errors.As(err, &e) || e.Kind != filch.Unavailable {
		t.Errorf("got %v", err)
	}
}

// A client waits for a launcher that is away for a moment.
func TestAwait(t *testing.T) {
	f := newFake(t)
	f.l.Close()
	type answer struct {
		c   *client.Client
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		c, err := client.Await(f.dir, "test")
		answers <- answer{c, err}
	}()
	select {
	case a := <-answers:
		t.Fatalf("got %v, %v without a launcher", a.c, a.err)
	case <-time.After(100 * time.Millisecond):
	}
	f.listen()
	a := <-answers
	if a.err != nil {
		t.Fatal(a.err)
	}
	a.c.Close()
}
