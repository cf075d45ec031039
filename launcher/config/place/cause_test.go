package place_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/filch-hpc/filch/launcher/config/place"
)

// The reason of a fault has none of the names of Go's calls.
func TestCauseIsPlain(t *testing.T) {
	_, missing := os.Open("/no/such/file")
	_, noProgram := exec.LookPath("no-such-program")
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, "no such file or directory"},
		{noProgram, "no program of this name is in PATH"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused"},
		{&net.OpError{Op: "dial", Net: "udp", Err: &net.DNSError{Err: "no such host", Name: "x.invalid", Server: "192.0.2.1:53", IsNotFound: true}}, "no address of this name is known"},
		{fmt.Errorf("asking: %w", &net.DNSError{Err: "i/o timeout", Name: "x.invalid", IsTimeout: true}), "no name server told the address of this name"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, "no answer in time"},
		{errors.New("as it is"), "as it is"},
	} {
		if got := place.Cause(c.err); got != c.want {
			t.Errorf("%v: the cause is %q, want %q", c.err, got, c.want)
		}
	}
}
