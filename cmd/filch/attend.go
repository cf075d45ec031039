package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/filch-hpc/filch"
)

// attend runs a command inside an instance, with env on top of our own, and
// takes the instance down when it has ended. It returns with the command's exit
// code.
func attend(command, env []string, began func(*os.Process), clear func()) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := cmd.Start(); err != nil {
		clear()
		complain(filch.Errorf(filch.NotFound, "cannot start %s: %s", command[0], cause(err)))
		if errors.Is(err, fs.ErrPermission) {
			return exit{filch.ExitNotExec}
		}
		return exit{filch.ExitNotFound}
	}
	if began != nil {
		began(cmd.Process)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-heard:
			// The terminal sends Ctrl-C and Ctrl-\ to the command itself.
			if !fromTerminal(sig) {
				_ = cmd.Process.Signal(sig)
			}
		case <-ended:
			clear()
			return exit{codeOf(cmd.ProcessState)}
		}
	}
}

// fromTerminal reports whether sig went to the whole foreground group.
func fromTerminal(sig os.Signal) bool {
	return (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && isTerminal(os.Stdin)
}

// codeOf is a shell's view of how a process ended.
func codeOf(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return filch.ExitSignalBase + int(w.Signal())
	}
	return s.ExitCode()
}

// cause is err without what exec wraps around it.
func cause(err error) string {
	var e *exec.Error
	var p *fs.PathError
	switch {
	case errors.As(err, &e):
		return e.Err.Error()
	case errors.As(err, &p):
		return p.Err.Error()
	}
	return err.Error()
}
