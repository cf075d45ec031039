package query

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What only waits for a client is tied to it, and what does anything else is not.
// Here cat is the client, this test the launcher, and the outer shell a keeper.
func TestTied(t *testing.T) {
	for _, c := range []struct {
		script string
		beside string // the program that does something else; "": the script is tied
	}{
		{"exec cat", ""},
		{"cat; true", ""},
		{"bash -c 'cat; true'; true", ""},
		{"cat <&3 & wait; true", ""},
		{"bash -c 'cat <&3 & wait; true'; true", ""},
		{"sleep 300 & cat; true", "sleep"},
		{"(while :; do sleep 1; done) & cat; true", "sleep"},
		{"timeout 300 cat; true", "timeout"},
		{"cat <&3 & bash -c 'read -t 300 x </dev/zero'; true", "bash"},
		{"cat <&3 & sleep 300; wait", "sleep"},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `exec 3<&0; sh -c "$0" 3<&0; true`, c.script)
		cmd.WaitDelay = time.Second
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		got, looks := false, 0
		for end := time.Now().Add(10 * time.Second); looks < 5 && !got; <-time.After(20 * time.Millisecond) {
			ps := readProcesses()
			client := ps.find(cmd.Process.Pid, "cat")
			if client > 0 && (c.beside == "" || ps.find(cmd.Process.Pid, c.beside) > 0) {
				got = ps.tied(os.Getpid(), []int{client})
				if c.beside != "" {
					looks++
				}
			}
			if time.Now().After(end) {
				break
			}
		}
		if want := c.beside == ""; got != want || !want && looks == 0 {
			t.Errorf("%s: tied %t after %d looks, want %t", c.script, got, looks, want)
		}
		readProcesses().kill(cmd.Process.Pid)
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// find is a descendant of pid whose program is called name.
func (ps *processes) find(pid int, name string) int {
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil && strings.TrimSpace(string(b)) == name {
		return pid
	}
	for _, kid := range ps.kids[pid] {
		if p := ps.find(kid, name); p > 0 {
			return p
		}
	}
	return 0
}

// kill ends pid and what it has started.
func (ps *processes) kill(pid int) {
	for _, kid := range ps.kids[pid] {
		ps.kill(kid)
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
