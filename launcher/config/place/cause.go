package place

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Cause is the reason of a fault of a file, a program or a connection, without the call and
// the name: Go's errors name both, and a message names the file in its own words.
func Cause(err error) string {
	var program *exec.Error
	var file *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	var name *net.DNSError
	var dial *net.OpError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "no address of this name is known"
	case errors.As(err, &name):
		return "no name server told the address of this name"
	case errors.As(err, &dial) && dial.Timeout():
		return "no answer in time"
	case errors.As(err, &dial):
		return Cause(dial.Err)
	case errors.Is(err, exec.ErrNotFound):
		return "no program of this name is in PATH"
	case errors.As(err, &program):
		return Cause(program.Err)
	case errors.As(err, &file):
		return file.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	case errors.As(err, &call):
		return call.Err.Error()
	}
	return err.Error()
}

// FaultKind is the kind of the error of a file that cannot be made or written: a full disk is no
// wrong input.
func FaultKind(err error) filch.Kind {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return filch.Internal
	}
	return filch.Invalid
}
