package cli

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// A look at a file system that hangs is said after a while, and has an end.
func TestALookHasAnEnd(t *testing.T) {
	lines := captureStderr(t)
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		if err := look("/x", func() error { return bad }); err != bad || lines() != "" {
			t.Errorf("got %v and %q, want %v and silence", err, lines(), bad)
		}
		began, hang := time.Now(), make(chan error)
		err := look("/x", func() error { return <-hang })
		close(hang)
		if took := time.Since(began); ui.KindOf(err) != filch.Timeout || took != lookWait {
			t.Errorf("got %v after %v, want a timeout after %v", err, took, lookWait)
		}
		if want := "filch: still waiting: the file system of /x does not answer\n"; lines() != want {
			t.Errorf("got %q, want %q", lines(), want)
		}
	})
}
