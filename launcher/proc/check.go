package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"golang.org/x/sys/unix"
)

// headBytes is read of each program: enough for the ELF tables of most.
const headBytes = 4096

// failure is what keeps a job from starting on this node.
type failure struct {
	cause launcher.CauseKind
	err   *filch.Error
}

func fail(cause launcher.CauseKind, kind filch.Kind, format string, args ...any) *failure {
	return &failure{cause, filch.Errorf(kind, format, args...)}
}

// hint adds what to do next.
func (f *failure) hint(text string) *failure {
	f.err = f.err.WithHint("%s", text)
	return f
}

// checkCwd makes sure that the ranks can begin in dir.
func checkCwd(dir string, node filch.NodeName) *failure {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fail(launcher.CauseOurs, filch.NotFound, "working directory %s: not on %s", dir, node).
			hint("give one that every node has with -D")
	case err != nil:
		return fail(launcher.CauseOurs, filch.Denied, "working directory %s on %s: %s", dir, node, reason(err))
	case !st.IsDir():
		return fail(launcher.CauseOurs, filch.Invalid, "working directory %s on %s: not a directory", dir, node)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS); err != nil {
		return fail(launcher.CauseOurs, filch.Denied, "working directory %s on %s: %s", dir, node, reason(err))
	}
	return nil
}

// program is an executable as the keeper found it.
type program struct {
	path  string // what to exec
	shell bool   // no interpreter is named: /bin/sh reads it, as execvp does
	info  binaryInfo

	script, scriptArg string // of a script: its interpreter, and the first word after it
}

// findProgram resolves name as execvp would, in the PATH of env and relative
// to cwd, and checks what can be checked before an exec.
func findProgram(name, cwd string, env []string, node filch.NodeName) (program, *failure) {
	if name == "" {
		return program{}, fail(launcher.CauseNotFound, filch.Invalid, "cannot run an empty program name on %s", node)
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		return inspect(name, path, node)
	}
	path, ok := lookupEnv(env, "PATH")
	if !ok {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	dirs := filepath.SplitList(path)
	var denied *failure
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		p, f := inspect(name, filepath.Join(dir, name), node)
		if f == nil {
			return p, nil
		}
		if f.cause == launcher.CauseNotExec && denied == nil {
			denied = f
		}
	}
	if denied != nil {
		return program{}, denied
	}
	return program{}, fail(launcher.CauseNotFound, filch.NotFound,
		"cannot run %s: not on %s (looked in the %d folders of PATH)", name, node, len(dirs)).
		hint("check the name, or --bcast copies a program to every node")
}

// inspect checks that path can be executed.
func inspect(name, path string, node filch.NodeName) (program, *failure) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return program{}, fail(launcher.CauseNotFound, filch.NotFound, "cannot run %s: not on %s", name, node).
			hint("--bcast copies a program to every node")
	case err != nil:
		return program{}, fail(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: %s", name, node, reason(err))
	case st.IsDir():
		return program{}, fail(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: is a directory", name, node)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return program{}, fail(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: %s", name, node, reason(err)).
			hint("chmod +x makes a file executable")
	}
	p := program{path: path}
	f, err := os.Open(path)
	if err != nil {
		return p, nil // executable but not readable: the kernel judges
	}
	defer f.Close()
	buf := make([]byte, headBytes)
	n, _ := f.ReadAt(buf, 0)
	return p.judge(name, f, buf[:n], node)
}

// judge looks at the first bytes of the file.
func (p program) judge(name string, f *os.File, head []byte, node filch.NodeName) (program, *failure) {
	p.info = readELF(f, head)
	interp := p.info.interp
	switch {
	case p.info.elf:
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte{'\n'})
		interp, _, _ = strings.Cut(strings.TrimLeft(strings.TrimRight(string(line), " \t\r"), " \t"), " ")
		interp, _, _ = strings.Cut(interp, "\t")
		p.script, p.scriptArg = interp, secondWord(string(line))
		if strings.HasSuffix(string(line), "\r") {
			return p, fail(launcher.CauseNotExec, filch.Invalid,
				"cannot run %s on %s: its first line ends with a carriage return", name, node).
				hint("dos2unix repairs the file")
		}
	case bytes.IndexByte(head, 0) >= 0:
		return p, fail(launcher.CauseNotExec, filch.Invalid, "cannot run %s on %s: exec format error", name, node)
	default:
		p.shell = true
		return p, nil
	}
	if interp == "" || !strings.HasPrefix(interp, "/") {
		return p, nil
	}
	if _, err := os.Stat(interp); errors.Is(err, os.ErrNotExist) {
		return p, fail(launcher.CauseNotFound, filch.NotFound,
			"cannot run %s: its interpreter %s is not on %s", name, interp, node)
	}
	return p, nil
}

func secondWord(line string) string {
	if f := strings.Fields(line); len(f) > 1 {
		return f[1]
	}
	return ""
}

// reason is the errno text of err without the path that callers name.
func reason(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// lookupEnv finds name in env; the last one counts.
func lookupEnv(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(env[i], name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:], true
		}
	}
	return "", false
}
