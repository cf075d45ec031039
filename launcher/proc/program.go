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

// HeadBytes is the number of bytes read from the start of each program: enough for the
// ELF tables of most programs.
const HeadBytes = 4096

// Failure is the reason why a job cannot start on this node.
type Failure struct {
	Cause launcher.CauseKind
	Err   *filch.Error
}

func Failf(cause launcher.CauseKind, kind filch.Kind, format string, args ...any) *Failure {
	return &Failure{cause, filch.Errorf(kind, format, args...)}
}

// Hint adds advice on the next step.
func (f *Failure) Hint(text string) *Failure {
	f.Err = f.Err.WithHint("%s", text)
	return f
}

// CheckCwd makes sure that the ranks can begin in dir.
func CheckCwd(dir string, node filch.NodeName) *Failure {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Failf(launcher.CauseOurs, filch.NotFound, "working directory %s: not on %s", dir, node).
			Hint("choose a folder that every node has: -D FOLDER")
	case err != nil:
		return Failf(launcher.CauseOurs, filch.Denied, "working directory %s on %s: %s", dir, node, Reason(err))
	case !st.IsDir():
		return Failf(launcher.CauseOurs, filch.Invalid, "working directory %s on %s: not a directory", dir, node)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS); err != nil {
		return Failf(launcher.CauseOurs, filch.Denied, "working directory %s on %s: %s", dir, node, Reason(err))
	}
	return nil
}

// Program is an executable as the keeper found it.
type Program struct {
	Path  string // the file to exec
	Shell bool   // no interpreter is named: /bin/sh reads the file, as with execvp
	Info  Binary

	Script, ScriptArg string // of a script: the interpreter, and the word after
}

// FindProgram resolves name as execvp would, in the PATH of env and relative to cwd, and
// makes the checks that are possible before an exec.
func FindProgram(name, cwd string, env []string, node filch.NodeName) (Program, *Failure) {
	if name == "" {
		return Program{}, Failf(launcher.CauseNotFound, filch.Invalid, "cannot run an empty program name on %s", node)
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		return Inspect(name, path, node)
	}
	path, ok := LookupEnv(env, "PATH")
	if !ok {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	dirs := filepath.SplitList(path)
	var denied *Failure
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		path := filepath.Join(dir, name)
		p, f := Inspect(name, path, node)
		if f == nil {
			return p, nil
		}
		// A shell skips folders of PATH that it may not read, and folders called name.
		if f.Cause == launcher.CauseNotExec && denied == nil && isFile(path) {
			denied = f
		}
	}
	if denied != nil {
		return Program{}, denied
	}
	hint := "check the name, or --bcast copies a program to every node"
	if isFile(filepath.Join(cwd, name)) {
		hint = "there is a file " + name + " in the folder of the command: ./" + name + " runs it, if it is executable; a script also needs a first line such as #!/bin/sh"
	}
	return Program{}, Failf(launcher.CauseNotFound, filch.NotFound,
		"cannot run %s: not on %s (looked in the %d folders of PATH)", name, node, len(dirs)).Hint(hint)
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// Inspect checks that path can be executed.
func Inspect(name, path string, node filch.NodeName) (Program, *Failure) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return Program{}, Failf(launcher.CauseNotFound, filch.NotFound, "cannot run %s: not on %s", name, node).
			Hint("check the name, or --bcast copies a program to every node")
	case err != nil:
		return Program{}, Failf(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: %s", name, node, Reason(err))
	case st.IsDir():
		return Program{}, Failf(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: is a directory", name, node)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return Program{}, Failf(launcher.CauseNotExec, filch.Denied, "cannot run %s on %s: %s", name, node, Reason(err)).
			Hint("chmod +x makes a file executable")
	}
	p := Program{Path: path}
	f, err := os.Open(path)
	if err != nil {
		return p, nil // executable but not readable: the kernel judges
	}
	defer f.Close()
	buf := make([]byte, HeadBytes)
	n, _ := f.ReadAt(buf, 0)
	return p.judge(name, f, buf[:n], node)
}

// judge looks at the first bytes of the file.
func (p Program) judge(name string, f *os.File, head []byte, node filch.NodeName) (Program, *Failure) {
	p.Info = ReadELF(f, head)
	interp := p.Info.interp
	switch {
	case p.Info.IsELF:
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte{'\n'})
		interp, _, _ = strings.Cut(strings.TrimLeft(strings.TrimRight(string(line), " \t\r"), " \t"), " ")
		interp, _, _ = strings.Cut(interp, "\t")
		p.Script, p.ScriptArg = interp, secondWord(string(line))
		if strings.HasSuffix(string(line), "\r") {
			return p, Failf(launcher.CauseNotExec, filch.Invalid,
				"cannot run %s on %s: the first line ends with a carriage return", name, node).
				Hint("dos2unix repairs the file")
		}
	case bytes.IndexByte(head, 0) >= 0:
		return p, Failf(launcher.CauseNotExec, filch.Invalid, "cannot run %s on %s: exec format error", name, node)
	default:
		p.Shell = true
		return p, nil
	}
	if interp == "" || !strings.HasPrefix(interp, "/") {
		return p, nil
	}
	if _, err := os.Stat(interp); errors.Is(err, os.ErrNotExist) {
		return p, Failf(launcher.CauseNotFound, filch.NotFound,
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

// Reason is the errno text of err without the path that callers name.
func Reason(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// LookupEnv finds name in env; the last entry of the name counts.
func LookupEnv(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(env[i], name); ok && strings.HasPrefix(rest, "=") {
			return rest[1:], true
		}
	}
	return "", false
}
