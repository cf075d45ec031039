package bringup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// supervise runs a command inside an instance, with env on top of our own, and takes
// the instance down when the command has ended. attend returns the command's exit
// code.
func supervise(command, env []string, began func(*os.Process), clear func()) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := cmd.Start(); err != nil {
		clear()
		ui.Complain(filch.Errorf(filch.NotFound, "cannot start %s: %s", command[0], ui.Cause(err)))
		if errors.Is(err, fs.ErrPermission) {
			return ui.Exit(filch.ExitNotExec)
		}
		return ui.Exit(filch.ExitNotFound)
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
			return ui.Exit(ui.CodeOf(cmd.ProcessState))
		}
	}
}

// fromTerminal reports whether sig went to the whole foreground group.
func fromTerminal(sig os.Signal) bool {
	return (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && ui.IsTerminal(os.Stdin)
}
