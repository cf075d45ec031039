//go:build root

package mpi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEndings has every ending on one host and with the ranks on two.
func TestEndings(t *testing.T) {
	c := up(t, 2, 2)
	for _, e := range endings {
		for hosts := 1; hosts <= 2; hosts++ {
			t.Run(fmt.Sprintf("%s/hosts=%d", e.name, hosts), func(t *testing.T) {
				c := c.as(t)
				r := c.run(20*time.Second, append([]string{"-n", "2", "-N", fmt.Sprint(hosts), program(t, "ends")}, e.args...)...)
				verdict(c.T, r, e.code, e.last)
				if hosts == 2 && e.last != nil && !strings.Contains(r.lastLine(), "on n2") && e.name != "zero-before-init" {
					t.Errorf("the last line %q does not name n2", r.lastLine())
				}
				if strings.Contains(r.stderr, "readline failed") {
					t.Errorf("a rank's connection was closed before it ended: %s", r.stderr)
				}
				if r.took > 5*time.Second {
					t.Errorf("it took %v", r.took)
				}
				c.gone(2*time.Second, 0, 1)
				c.whole(5*time.Second, 2)
			})
		}
	}
}

// TestStarts has the ways in which a rank cannot start, and the ends that are
// ours.
func TestStarts(t *testing.T) {
	c := up(t, 2, 2)
	here := filepath.Join(c.Dir, "only-n1")
	data := filepath.Join(c.Dir, "data")
	if err := os.WriteFile(data, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		says []string // on stderr
	}{
		"missing":        {[]string{"-n", "2", "./nosuch"}, 127, []string{"./nosuch", "not on n1"}},
		"no-program":     {[]string{"-n", "2", data}, 126, []string{data}},
		"no-directory":   {[]string{"-n", "2", "-D", here, "true"}, 125, []string{here}},
		"too-large":      {[]string{"-n", "5", "true"}, 125, []string{"5 ranks", "largest that fits: -n 4"}},
		"too-many-nodes": {[]string{"-N", "3", "true"}, 125, []string{"3 nodes"}},
		"time-limit":     {[]string{"-n", "2", "-N", "2", "-t", "0:01", program(t, "steps"), "sleep"}, 124, []string{"time limit"}},
		"nonsense":       {[]string{"-n", "x", "true"}, 2, []string{"x"}},
		"not-mpi":        {[]string{"-n", "4", "-N", "2", "true"}, 0, nil},
		"false":          {[]string{"-n", "4", "-N", "2", "false"}, 1, []string{"exited with 1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := c.as(t)
			r := c.run(20*time.Second, tt.args...)
			if r.code != tt.code {
				t.Errorf("want code %d: %v", tt.code, r)
			}
			for _, s := range tt.says {
				if !strings.Contains(r.stderr, s) {
					t.Errorf("said %q, want it to contain %q", r.stderr, s)
				}
			}
			c.gone(2*time.Second, 0, 1)
			c.whole(5*time.Second, 2)
		})
	}
}

// TestInterrupt has Ctrl-C, and signals that are passed on.
func TestInterrupt(t *testing.T) {
	c := up(t, 2, 1)
	t.Run("twice", func(t *testing.T) {
		c := c.as(t)
		j := c.launch(0, 20*time.Second, "", "run", "-n", "2", "-N", "2", "--kill-wait", "1", program(t, "steps"), "receive")
		if j.says("at receive\n", 2) {
			_ = j.cmd.Process.Signal(syscall.SIGINT)
			for !strings.Contains(j.stderr.String(), "filch") && j.ctx.Err() == nil {
				pause()
			}
			_ = j.cmd.Process.Signal(syscall.SIGINT)
		}
		if r := j.wait(); r.code != 130 {
			t.Errorf("want code 130: %v", r)
		}
		c.gone(3*time.Second, 0, 1)
		c.whole(5*time.Second, 2)
	})
	t.Run("term", func(t *testing.T) {
		c := c.as(t)
		j := c.launch(0, 20*time.Second, "", "run", "-n", "2", "-N", "2", "--kill-wait", "1", program(t, "steps"), "sleep")
		if j.says("at sleep\n", 2) {
			_ = j.cmd.Process.Signal(syscall.SIGTERM)
		}
		if r := j.wait(); r.code != 143 {
			t.Errorf("want code 143: %v", r)
		}
		c.gone(3*time.Second, 0, 1)
		c.whole(5*time.Second, 2)
	})
}
