package proc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func pointer[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// helperFamily leaves a child in its own group and a grandchild that made its
// own session and whose parent has died; then it exits or waits.
func helperFamily(args []string) int {
	self := os.Args[0]
	child := exec.Command(self, "rank", "hang")
	child.Stdout = os.Stdout
	if err := child.Start(); err != nil {
		return 1
	}
	daemon := exec.Command("/bin/sh", "-c", `setsid "$0" rank hang & exit 0`, self)
	daemon.Stdout = os.Stdout
	if err := daemon.Run(); err != nil {
		return 1
	}
	fmt.Println("family", os.Getpid())
	if args[0] == "exit" {
		return 0
	}
	return helperHang(nil)
}

// helperPMI speaks PMI-1: each argument is a step.
func helperPMI(args []string) int {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		fmt.Println("no PMI_FD")
		return 9
	}
	f := os.NewFile(uintptr(fd), "pmi")
	r := bufio.NewReader(f)
	ask := func(line string) string {
		fmt.Fprintln(f, line)
		answer, _ := r.ReadString('\n')
		return strings.TrimSuffix(answer, "\n")
	}
	for _, a := range args {
		word, rest, _ := strings.Cut(a, ":")
		switch word {
		case "init":
			ask("cmd=init pmi_version=1 pmi_subversion=1")
		case "name":
			fmt.Println(ask("cmd=get_my_kvsname"))
		case "map":
			fmt.Println(ask("cmd=get kvsname=" + kvsname(ask) + " key=PMI_process_mapping"))
		case "put":
			key, value, _ := strings.Cut(rest, "=")
			ask("cmd=put kvsname=" + kvsname(ask) + " key=" + key + " value=" + value)
		case "get":
			fmt.Println(ask("cmd=get kvsname=" + kvsname(ask) + " key=" + rest))
		case "flood":
			n, _ := strconv.Atoi(rest)
			name, value := kvsname(ask), strings.Repeat("v", 1000)
			for i := range n {
				ask(fmt.Sprintf("cmd=put kvsname=%s key=k%d value=%s", name, i, value))
			}
		case "fence":
			fmt.Println(ask("cmd=barrier_in"))
		case "finalize":
			ask("cmd=finalize")
		case "say":
			fmt.Fprintln(os.Stderr, rest)
		case "abort":
			fmt.Fprintf(f, "cmd=abort exitcode=%s\n", rest)
			return helperHang(nil)
		case "raw":
			fmt.Println(ask(rest))
		case "exit":
			n, _ := strconv.Atoi(rest)
			return n
		case "kill":
			return helperKillSelf([]string{rest})
		case "hang":
			return helperHang(nil)
		}
	}
	return 0
}

func kvsname(ask func(string) string) string {
	_, name, _ := strings.Cut(ask("cmd=get_my_kvsname"), "kvsname=")
	return name
}

// helperTTY says what its terminal is like, and again when it is resized.
func helperTTY([]string) int {
	size := func() string {
		w, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%dx%d", w.Row, w.Col)
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	fmt.Println("size", size())
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("read %q %v\n", line, err)
	if err != nil { // no terminal
		return 0
	}
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
	}
	fmt.Println("now", size())
	return 0
}

// helperBytes writes single bytes, unbuffered.
func helperBytes(args []string) int {
	n, _ := strconv.Atoi(args[0])
	for range n {
		if _, err := os.Stdout.Write([]byte{'b'}); err != nil {
			return 1
		}
	}
	return 0
}

// helperMap has a file in its memory, as a library is, and hangs.
func helperMap(args []string) int {
	f, err := os.Open(args[0])
	if err != nil {
		return 1
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		return 1
	}
	return helperHang(nil)
}
