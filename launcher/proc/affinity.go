package proc

import (
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mask is a set of CPUs of any size, in the form of sched_setaffinity(2).
type Mask []uint

// maskMax bounds a mask, in CPUs; larger than any Linux.
const maskMax = 1 << 16

// MaskOf is the set of some CPUs. Numbers below 0 or beyond the largest Linux are left out.
func MaskOf(cpus []int32) Mask {
	var m Mask
	for _, c := range cpus {
		if c < 0 || c >= maskMax {
			continue
		}
		for int(c)/bits.UintSize >= len(m) {
			m = append(m, 0)
		}
		m[c/bits.UintSize] |= 1 << (c % bits.UintSize)
	}
	return m
}

// String is m in hexadecimal, as srun writes masks.
func (m Mask) String() string {
	n := new(big.Int)
	for i, w := range m {
		n.Or(n, new(big.Int).Lsh(new(big.Int).SetUint64(uint64(w)), uint(i*bits.UintSize)))
	}
	return "0x" + strings.ToUpper(n.Text(16))
}

// AffinityOf returns the CPUs on which a process may run; 0 is this thread.
func AffinityOf(pid int) (Mask, error) {
	return affinity(func(m Mask) (int, unix.Errno) {
		n, _, err := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(pid), uintptr(len(m)*bits.UintSize/8), uintptr(unsafe.Pointer(&m[0])))
		return int(n), err
	})
}

// affinity asks with larger and larger masks: the kernel refuses a mask that is smaller
// than its own. get returns the bytes written.
func affinity(get func(Mask) (int, unix.Errno)) (Mask, error) {
	for cpus := 1024; ; cpus *= 2 {
		m := make(Mask, cpus/bits.UintSize)
		n, err := get(m)
		if err == 0 {
			return m[:(n+bits.UintSize/8-1)/(bits.UintSize/8)], nil
		}
		if err != unix.EINVAL || cpus >= maskMax {
			return nil, err
		}
	}
}

// apply makes this thread, and its children, run on m alone.
func (m Mask) apply() error {
	if len(m) == 0 {
		return unix.EINVAL
	}
	if _, _, err := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(len(m)*bits.UintSize/8), uintptr(unsafe.Pointer(&m[0]))); err != 0 {
		return err
	}
	return nil
}

// Binding is the affinity of the forking thread around a fork.
type Binding struct {
	Set  Mask // the CPUs that the child got; nil: nothing was bound
	was  Mask
	Kind string
}

// Bind gives this thread the CPUs of a mask, so that a child starts on these CPUs. The
// binding of an empty mask changes nothing.
func Bind(m Mask, kind string) (Binding, error) {
	b := Binding{Kind: kind}
	if len(m) == 0 {
		return b, nil
	}
	was, err := AffinityOf(0)
	if err != nil {
		return b, err
	}
	if err := m.apply(); err != nil {
		return b, err
	}
	b.Set, b.was = m, was
	return b, nil
}

// Restore gives this thread the CPUs from before the binding.
func (b Binding) Restore() {
	if b.Set != nil {
		_ = b.was.apply()
	}
}

// Binder keeps the forking thread of a runner on the CPUs of its last child. The next child
// on the same CPUs costs no system call, and the thread does not move.
type Binder struct {
	all, held Mask
}

// NewBinder takes the CPUs of this thread for those of children without a mask.
func NewBinder() Binder {
	all, _ := AffinityOf(0) // nil where the kernel does not tell: Bind then does nothing
	return Binder{all: all, held: all}
}

// Bind makes the next child start on the CPUs of a mask. A child with an empty mask, or
// with CPUs that this machine does not have, starts on the CPUs of NewBinder.
func (b *Binder) Bind(m Mask) {
	if len(m) == 0 {
		m = b.all
	}
	if len(b.all) == 0 || slices.Equal(m, b.held) {
		return
	}
	if m.apply() != nil {
		m = b.all
		_ = m.apply()
	}
	b.held = m
}

// Release lets the thread run on the CPUs of NewBinder.
func (b *Binder) Release() { b.Bind(nil) }

// Bound reports whether the thread is kept on the CPUs of a child.
func (b *Binder) Bound() bool { return !slices.Equal(b.held, b.all) }
