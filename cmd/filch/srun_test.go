package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const srunGolden = "testdata/srun.golden"

// saying is a command line and what srun said to it.
type saying struct {
	line string // of sh
	want string // standard output and exit code
}

// readSayings reads the golden file: the lines in front, and the entries.
func readSayings(t *testing.T) (head []string, sayings []saying, tail []string) {
	t.Helper()
	b, err := os.ReadFile(srunGolden)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.SplitAfter(string(b), "\n") {
		switch {
		case strings.HasPrefix(line, "$ "):
			sayings = append(sayings, saying{line: strings.TrimSpace(line[2:])})
		case strings.HasPrefix(line, "! "):
			tail = append(tail, line)
		case len(sayings) == 0:
			head = append(head, line)
		default:
			sayings[len(sayings)-1].want += line
		}
	}
	return head, sayings, tail
}

// say runs a line in a folder of its own and gives what it printed. node is the command
// that prints the name of its node.
func (s saying) say(t *testing.T, line string, env []string, node string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hosts": "n1\nn4\n", "text": "hello\n", "two.conf": "0 echo 'a  b'\n1 echo c\n",
		"silly.conf": "# a comment\n4-6       " + node + "\n1,7       echo  task:%t\n0,2-3     echo  offset:%o\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.Output()
	code := 0
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, "(no newline)\n"...)
	}
	return fmt.Sprintf("%s[%d]\n", out, code)
}

// TestSrunSaysTheSame runs what was recorded from srun with filch run.
func TestSrunSaysTheSame(t *testing.T) {
	head, sayings, tail := readSayings(t)
	if os.Getenv("FILCH_GOLDEN") == "srun" {
		recordSrun(t, head, sayings, tail)
		return
	}
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), shared.env()...)
	env = append(env, "FILCH_INSTANCE="+scriptInstance)
	for _, s := range sayings {
		t.Run(s.line, func(t *testing.T) {
			line := strings.ReplaceAll(s.line, "srun ", "filch run ")
			line = strings.ReplaceAll(line, "SLURM_PROCID", "FILCH_RANK")
			// Nodes on one machine share its name where the kernel refuses namespaces.
			const node = "printenv FILCH_NODE"
			line = strings.ReplaceAll(line, " hostname", " "+node)
			got := s.say(t, line, env, node)
			got = strings.ReplaceAll(got, "filch: warning: ", "srun: Warning: ")
			if got != s.want {
				t.Errorf("%s\ngot:\n%swant, from srun:\n%s", line, got, s.want)
			}
		})
	}
}

// recordSrun writes the golden file anew from the srun of the PATH.
func recordSrun(t *testing.T, head []string, sayings []saying, tail []string) {
	var b strings.Builder
	b.WriteString(strings.Join(head, ""))
	for _, s := range sayings {
		b.WriteString("$ " + s.line + "\n" + s.say(t, s.line, os.Environ(), "hostname"))
	}
	b.WriteString(strings.Join(tail, ""))
	if err := os.WriteFile(srunGolden, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
