package proc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/proc/keeper"
	"github.com/filch-hpc/filch/launcher/proc/runner"
	"golang.org/x/sys/unix"
)

// The test binary poses as the keeper and as the ranks: a rank runs it with
// the word "rank" and the name of one of these.
var helpers = map[string]func(args []string) int{
	"exit":      func(a []string) int { n, _ := strconv.Atoi(a[0]); return n },
	"print":     helperPrint,
	"env":       helperEnv,
	"args":      func(a []string) int { fmt.Printf("%q\n", a); return 0 },
	"cat":       helperCat,
	"sum":       helperSum,
	"hang":      helperHang,
	"leader":    helperLeader,
	"stubborn":  helperStubborn,
	"flood":     helperFlood,
	"state":     helperState,
	"kill-self": helperKillSelf,
	"family":    helperFamily,
	"pmi":       helperPMI,
	"tty":       helperTTY,
	"bytes":     helperBytes,
	"spend":     helperSpend,
	"map":       helperMap,
}

// used notes which helpers a test asked for; one that none did is a leftover.
var used = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "keeper":
			os.Exit(keeper.Main(os.Args[2:]))
		case "runner":
			os.Exit(runner.Main(os.Args[2:]))
		case "rank":
			os.Exit(helpers[os.Args[2]](os.Args[3:]))
		case "launcher":
			os.Exit(poseAsLauncher(os.Args[2:]))
		}
	}
	code := m.Run()
	part := slices.ContainsFunc(os.Args, func(a string) bool {
		return slices.ContainsFunc([]string{"-test.run", "-test.skip", "-test.fuzz", "-test.short", "-test.list", "-test.bench"}, func(f string) bool {
			return strings.HasPrefix(a, f) && a != "-test.run="
		})
	})
	if code == 0 && !part {
		for name := range helpers {
			if !used.names[name] {
				fmt.Printf("helper %q is not used by any test\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// argv makes a rank's command line.
func argv(helper string, args ...string) []string {
	if helpers[helper] == nil {
		panic("no helper " + helper)
	}
	used.Lock()
	used.names[helper] = true
	used.Unlock()
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, "rank", helper}, args...)
}

// helperPrint prints each argument; "!" before it means stderr.
func helperPrint(args []string) int {
	for _, a := range args {
		if rest, ok := strings.CutPrefix(a, "!"); ok {
			fmt.Fprint(os.Stderr, rest)
		} else {
			fmt.Print(a)
		}
	}
	return 0
}

func helperEnv(names []string) int {
	if len(names) == 0 {
		for _, e := range os.Environ() {
			fmt.Println(e)
		}
	}
	for _, n := range names {
		v, ok := os.LookupEnv(n)
		fmt.Printf("%s=%q %v\n", n, v, ok)
	}
	return 0
}

func helperCat([]string) int {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helperSum reads stdin, optionally only after a file appears, and prints how
// many bytes came and a sum of them.
func helperSum(args []string) int {
	for len(args) > 0 && !fileExists(args[0]) {
		time.Sleep(time.Millisecond)
	}
	n, sum := 0, uint32(0)
	r := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		b, err := r.ReadByte()
		if err != nil {
			break
		}
		n++
		sum = sum*31 + uint32(b)
	}
	fmt.Printf("%d %d\n", n, sum)
	return 0
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// helperHang says that it is there and waits to be killed.
func helperHang([]string) int {
	fmt.Println("up", os.Getpid())
	for {
		time.Sleep(time.Hour)
	}
}

// helperLeader ends its first thread, and goes on without.
func helperLeader([]string) int {
	for range time.Tick(time.Millisecond) {
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				fmt.Println("up", os.Getpid())
				unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
			}
			select {}
		}()
	}
	return 0
}

// helperStubborn ignores what can be ignored.
func helperStubborn([]string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	return helperHang(nil)
}

// helperFlood writes lines without end, or as many bytes as it is told.
func helperFlood(args []string) int {
	left := 1 << 62
	if len(args) > 0 {
		left, _ = strconv.Atoi(args[0])
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	chunk := []byte(strings.Repeat(string(line), 640))
	for left > 0 {
		n := min(left, len(chunk))
		if _, err := os.Stdout.Write(chunk[:n]); err != nil {
			return 1
		}
		left -= n
	}
	return 0
}

// helperState prints what a rank inherits besides descriptors.
func helperState([]string) int {
	sid, _ := unix.Getsid(0)
	dir, _ := os.Getwd()
	mask := unix.Umask(0)
	var core, files unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_CORE, &core)
	unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	var death int32
	unix.Prctl(unix.PR_GET_PDEATHSIG, pointer(&death), 0, 0, 0)
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("group=%v session=%v cwd=%s umask=%04o core=%d death=%d\n", unix.Getpgrp() == os.Getpid(), sid == os.Getpid(), dir, mask, core.Cur, death)
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			set, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			fmt.Printf("SigIgn:\t%016x\n", set&^libcSignals)
		}
		if strings.HasPrefix(line, "Cpus_allowed_list:") {
			fmt.Print(line)
		}
	}
	return 0
}

// libcSignals are 32 and 33, which belong to the C library: whoever started the
// tests may have them ignored, and no program can say otherwise through it.
const libcSignals = 1<<31 | 1<<32

func helperKillSelf(args []string) int {
	n, _ := strconv.Atoi(args[0])
	if n == int(unix.SIGABRT) {
		debug.SetTraceback("crash") // else Go makes an exit of it
	}
	unix.Kill(os.Getpid(), unix.Signal(n))
	return helperHang(nil)
}
