package proc

import (
	"math/bits"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMasks(t *testing.T) {
	for _, c := range []struct {
		cpus []int32
		want string
	}{
		{nil, "0x0"},
		{[]int32{0}, "0x1"},
		{[]int32{1, 2, 7}, "0x86"},
		{[]int32{64}, "0x1" + strings.Repeat("0", 16)},
		{[]int32{2047, 0}, "0x8" + strings.Repeat("0", 510) + "1"},
		{[]int32{-1, maskMax, 3}, "0x8"},
	} {
		if got := MaskOf(c.cpus).String(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.cpus, got, c.want)
		}
	}
}

// A kernel for 4,096 CPUs refuses masks for 1,024 and 2,048.
func TestAffinityOfLargeKernels(t *testing.T) {
	const kernel = 4096
	var asked []int
	m, err := affinity(func(m Mask) (int, unix.Errno) {
		asked = append(asked, len(m)*bits.UintSize)
		if len(m)*bits.UintSize < kernel {
			return 0, unix.EINVAL
		}
		m[2047/bits.UintSize] = 1 << (2047 % bits.UintSize)
		return kernel / 8, 0
	})
	if err != nil || m.String() != "0x8"+strings.Repeat("0", 511) || len(asked) != 3 {
		t.Errorf("got %s, %v after masks of %v CPUs", m, err, asked)
	}
	if _, err := affinity(func(Mask) (int, unix.Errno) { return 0, unix.EINVAL }); err != unix.EINVAL {
		t.Errorf("a kernel that refuses every mask: got %v", err)
	}
}

// The kernel takes a mask with CPUs beyond those of this machine, and drops these CPUs.
func TestBindBeyondTheMachine(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := AffinityOf(0)
	if err != nil {
		t.Fatal(err)
	}
	var first int32
	for was[first/bits.UintSize]&(1<<(first%bits.UintSize)) == 0 {
		first++
	}
	b, err := Bind(MaskOf([]int32{first, 5000}), "MASK")
	if err != nil {
		t.Fatal(err)
	}
	now, err := AffinityOf(0)
	if want := MaskOf([]int32{first}).String(); err != nil || now.String() != want {
		t.Errorf("bound: got %s, %v; want %s", now, err, want)
	}
	b.Restore()
	if again, err := AffinityOf(0); err != nil || again.String() != was.String() {
		t.Errorf("restored: got %s, %v; want %s", again, err, was)
	}
	if b, err := Bind(nil, "NONE"); err != nil || b.Set != nil {
		t.Errorf("no mask: got %v, %v", b, err)
	}
	if _, err := Bind(MaskOf([]int32{5000}), "MASK"); err == nil {
		t.Error("bound to a CPU that this machine does not have")
	}
}

// The thread stays on the CPUs of its last child, and goes back for a child without a mask.
func TestBinderMovesTheThreadOnce(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, err := AffinityOf(0)
	if err != nil {
		t.Fatal(err)
	}
	var first int32
	for all[first/bits.UintSize]&(1<<(first%bits.UintSize)) == 0 {
		first++
	}
	b := NewBinder()
	defer b.Release()
	for _, c := range []struct {
		what string
		bind []int32
		want Mask
	}{
		{"a mask", []int32{first}, MaskOf([]int32{first})},
		{"the same mask", []int32{first}, MaskOf([]int32{first})},
		{"no mask", nil, all},
		{"the mask again", []int32{first}, MaskOf([]int32{first})},
		{"a CPU that this machine does not have", []int32{5000}, all},
	} {
		b.Bind(MaskOf(c.bind))
		now, err := AffinityOf(0)
		if err != nil || now.String() != c.want.String() {
			t.Errorf("%s: the thread has %s, %v; want %s", c.what, now, err, c.want)
		}
		if bound := now.String() != all.String(); bound != b.Bound() {
			t.Errorf("%s: Bound is %v, want %v", c.what, b.Bound(), bound)
		}
	}
	moved := MaskOf([]int32{first})
	b.Bind(moved)
	if err := all.apply(); err != nil { // behind the binder's back
		t.Fatal(err)
	}
	b.Bind(MaskOf([]int32{first}))
	if now, _ := AffinityOf(0); now.String() != all.String() {
		t.Error("a second child on the same CPUs moved the thread")
	}
}
