package filchd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// yamlWait bounds the reading of a workflow file: a file of 64 MiB takes some 20
// s on a busy machine.
const yamlWait = 2 * time.Minute

// ReadYAML has filchd read YAML, for [workflow.Options]. ReadYAML needs no
// running launcher: the program is started for this file, and the file cannot
// harm launchers, however large or odd the file is.
func ReadYAML(text []byte) (asJSON []byte, line int, err error) {
	out, code, err := Run(yamlWait, text, "yaml")
	if err != nil || code == 0 {
		return out, 0, err
	}
	var fault workflow.YAMLFault
	if err := json.Unmarshal(out, &fault); err != nil || code != workflow.ExitYAML {
		return nil, 0, filch.Errorf(filch.Internal, "the reader of YAML ended with code %d", code)
	}
	return nil, fault.Line, errors.New(fault.Text)
}

// Run runs filchd as a program with a bounded run time and returns its standard
// output. Run writes nothing to disk, where the system allows that. A failure's message on standard error becomes the error, but for codes
// below [filch.ExitOurs].
func Run(wait time.Duration, stdin []byte, args ...string) (stdout []byte, code int, err error) {
	path, done, err := program()
	if err != nil {
		return nil, 0, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &said
	stdout, err = cmd.Output()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return stdout, 0, nil
	case ctx.Err() != nil:
		return nil, 0, filch.Errorf(filch.Timeout, "%s did not end within %s", path, filch.ShortTime(wait))
	case !errors.As(err, &failed):
		return nil, 0, filch.Errorf(filch.Internal, "cannot run %s: %s", path, place.Cause(err))
	case failed.ExitCode() == filch.ExitUsage && said.Len() > 0:
		return nil, 0, SaidBy(said.Bytes(), "", failed.ExitCode())
	case failed.ExitCode() > 0 && failed.ExitCode() < filch.ExitOurs:
		return stdout, failed.ExitCode(), nil
	}
	return nil, 0, SaidBy(said.Bytes(), fmt.Sprintf("filchd %s ended (%s)", args[0], failed), failed.ExitCode())
}

// program is the path of filchd, until done: the installed program, else a copy in memory, else,
// where programs in memory are forbidden, the program that program installs.
func program() (path string, done func(), err error) {
	body, err := embedded()
	if err != nil {
		return "", nil, err
	}
	base, err := place.BaseName()
	if err != nil {
		return "", nil, err
	}
	if path := place.Installed(place.Bin(base), "filchd", body); path != "" {
		return path, func() {}, nil
	}
	if path, done := inMemory(body); path != "" {
		return path, done, nil
	}
	if base, err = place.Base(); err != nil {
		return "", nil, err
	}
	path, err = installOne(base, "filchd", body)
	return path, func() {}, err
}

// inMemory is the path of a program that no disk holds, until done; "" if the system forbids such
// programs.
func inMemory(body []byte) (path string, done func()) {
	fd, err := unix.MemfdCreate("filchd", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("filchd", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return "", nil
	}
	f := os.NewFile(uintptr(fd), "filchd")
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	if _, err := f.Write(body); err != nil || unix.Access(path, unix.X_OK) != nil {
		_ = f.Close()
		return "", nil
	}
	return path, func() { _ = f.Close() }
}

// SaidBy is the error that filchd wrote to its standard error, in lines that
// begin with `filch: error: ` and `filch: hint: `; without such lines the text is
// ended, with the last line. The exit code of filchd tells whether the input was wrong.
func SaidBy(said []byte, ended string, code int) error {
	text, hint := "", ""
	for line := range bytes.SplitSeq(said, []byte("\n")) {
		if s, ok := bytes.CutPrefix(line, []byte("filch: error: ")); ok {
			text = string(s)
		} else if s, ok := bytes.CutPrefix(line, []byte("filch: hint: ")); ok {
			hint = string(s)
		}
	}
	if text == "" {
		text = ended
		if tail := LastLine(said); tail != "" {
			text += ": " + tail
		}
	}
	kind := filch.Internal
	if code == filch.ExitUsage {
		kind = filch.Invalid
	}
	e := filch.Errorf(kind, "%s", text)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

func LastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b = b[i+1:]
	}
	return string(b)
}
