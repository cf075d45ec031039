package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

const (
	sigINT  = int32(syscall.SIGINT)
	sigTERM = int32(syscall.SIGTERM)
	sigPIPE = int32(syscall.SIGPIPE)
)

// abortWithin is the time in which a second Ctrl-C ends the job, as in srun.
const abortWithin = time.Second

// interactive sets up signals and, for --pty, the terminal.
func (s *session) interactive() {
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGPIPE)
	if s.spec.Client.Pty && isTerminal(os.Stdin) {
		signal.Notify(heard, syscall.SIGWINCH)
		if old, err := term.MakeRaw(int(os.Stdin.Fd())); err == nil {
			rawTerminal.Store(true)
			s.undo = func() {
				_ = term.Restore(int(os.Stdin.Fd()), old)
				rawTerminal.Store(false)
			}
		}
	}
	go s.hear(heard)
}

// hear acts on signals, by srun's rules: Ctrl-C tells where the job stands, a
// second one within a second ends the job, a third leaves without waiting;
// TERM, HUP and QUIT end it; TSTP does nothing; the others go to the ranks.
func (s *session) hear(heard <-chan os.Signal) {
	var last time.Time
	aborting := false
	for sig := range heard {
		switch sig {
		case syscall.SIGINT:
			switch {
			case aborting:
				s.leave(filch.ExitInterrupt)
			case s.waiting() || time.Since(last) < abortWithin:
				aborting = true
				s.abort()
			default:
				last = time.Now()
				say("interrupt (one more within 1 sec to abort)")
				say(s.standing())
			}
		case syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
			say("forcing job termination")
			if s.run.Cancel(sigTERM) != nil {
				s.leave(filch.ExitSignalBase + int(sig.(syscall.Signal)))
			}
		case syscall.SIGPIPE, syscall.SIGTSTP:
		case syscall.SIGWINCH:
			_ = s.run.Resize(terminalSize())
		case syscall.SIGCONT:
			s.pump.resume()
			s.forward(sig)
		default:
			s.forward(sig)
		}
	}
}

func (s *session) forward(sig os.Signal) {
	if n, ok := sig.(syscall.Signal); ok && !s.waiting() {
		_ = s.run.Signal(int32(n))
	}
}

// waiting reports whether no rank runs yet.
func (s *session) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.begun
}

// standing is the line that a first Ctrl-C shows.
func (s *session) standing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.nodes == nil:
		return fmt.Sprintf("job %d: starting", s.job)
	case s.size == 1:
		return fmt.Sprintf("job %d rank 0 on %s: running", s.job, nodeNames(s.nodes))
	}
	return fmt.Sprintf("job %d ranks 0-%d on %s: running", s.job, s.size-1, nodeNames(s.nodes))
}

// abort asks for the end that Ctrl-C means. Before a job exists there is
// nothing to wait for.
func (s *session) abort() {
	s.mu.Lock()
	job := s.job
	s.mu.Unlock()
	if job == 0 {
		s.leave(filch.ExitInterrupt)
	}
	say(fmt.Sprintf("sending Ctrl-C to job %d", job))
	if s.run.Cancel(sigINT) != nil {
		s.leave(filch.ExitInterrupt)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// isNull reports whether f is the null device.
func isNull(f *os.File) bool {
	var s syscall.Stat_t
	const null = 1<<8 | 3 // major 1, minor 3
	return syscall.Fstat(int(f.Fd()), &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == null
}

// terminalSize is that of our terminal, or the usual one where there is none.
func terminalSize() launcher.Window {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if cols, rows, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 && rows > 0 {
			return launcher.Window{Rows: uint16(min(rows, 1<<16-1)), Cols: uint16(min(cols, 1<<16-1))}
		}
	}
	return launcher.Window{Rows: 24, Cols: 80}
}
