package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAction is the kernel's struct sigaction for a signal with the default
// action or none: only the handler matters, the rest is as wide as on any
// 64-bit Linux.
type kernelAction struct {
	handler, flags, restorer, mask uint64
}

const ignored = 1 // SIG_IGN

// restoreIfIgnored gives an ignored signal its default action.
func restoreIfIgnored(sig unix.Signal) {
	var old, def kernelAction
	const maskBytes = 8
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&old)), maskBytes, 0, 0)
	if e == 0 && old.handler == ignored {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&def)), 0, maskBytes, 0, 0)
	}
}

// DefaultSignals gives all ignored signals their default action, as a launcher under
// nohup ignores some: an ignored signal stays ignored over an exec, and a rank must see
// the defaults.
func DefaultSignals() {
	for sig := unix.Signal(1); sig < 32; sig++ {
		if sig != unix.SIGKILL && sig != unix.SIGSTOP {
			restoreIfIgnored(sig)
		}
	}
}
