package filchd

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// A full disk is no wrong input: a command ends with 125, not with 2.
func TestNoRoomIsNoMisuse(t *testing.T) {
	for _, c := range []struct {
		err  error
		want filch.Kind
	}{{unix.ENOSPC, filch.Internal}, {unix.EDQUOT, filch.Internal}, {unix.EACCES, filch.Invalid}} {
		err := NoRoom("/x", &os.PathError{Op: "write", Path: "/x/.new", Err: c.err})
		var e *filch.Error
		if !errors.As(err, &e) || e.Kind != c.want || !strings.HasPrefix(e.Text, "cannot write a program to /x: ") {
			t.Errorf("%v became %+v, want kind %v", c.err, e, c.want)
		}
	}
}
