package runclient

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// abortWithin is the time in which a second Ctrl-C ends the job, as in srun.
const abortWithin = time.Second

// endsWithin is how long the end of a cancelled job may take beyond the time from TERM to KILL:
// longer than a launcher that is cut off is waited for.
const endsWithin = 20 * time.Second

// interactive sets up signals and, for --pty, the terminal.
func (s *Session) interactive() {
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	heard := make(chan os.Signal, 16)
	signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGPIPE)
	if s.Spec.Client.Pty && ui.IsTerminal(os.Stdin) {
		signal.Notify(heard, syscall.SIGWINCH)
		if old, err := term.MakeRaw(int(os.Stdin.Fd())); err == nil {
			ui.RawTerminal.Store(true)
			s.undo = func() {
				_ = term.Restore(int(os.Stdin.Fd()), old)
				ui.RawTerminal.Store(false)
			}
		}
	}
	go s.hear(heard)
}

// hear acts on signals, by srun's rules: the first Ctrl-C prints the job's state,
// a second Ctrl-C within a second ends the job, a third leaves without waiting;
// TERM, HUP and QUIT end the job; TSTP does nothing; other signals go to the
// ranks.
func (s *Session) hear(heard <-chan os.Signal) {
	var last time.Time
	aborting := false
	for sig := range heard {
		switch sig {
		case syscall.SIGINT:
			switch {
			case aborting:
				s.leave(filch.ExitInterrupt)
			case s.waiting() || s.Spec.Client.QuitFirst || time.Since(last) < abortWithin:
				aborting = true
				s.abort()
			default:
				last = time.Now()
				ui.Say("interrupt (one more within 1 sec to abort)")
				ui.Say(s.standing())
			}
		case syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
			s.terminate(filch.ExitSignalBase + int(sig.(syscall.Signal)))
		case syscall.SIGPIPE, syscall.SIGTSTP:
		case syscall.SIGWINCH:
			_ = s.run.Resize(ui.TerminalSize())
		case syscall.SIGCONT:
			s.pump.resume()
			s.forward(sig)
		default:
			s.forward(sig)
		}
	}
}

// terminate asks the launcher to end the job, and leaves if the launcher does not do so: the end of
// the connection ends the job, too. Before a job exists there is nothing to wait for.
func (s *Session) terminate(code int) {
	ui.Say("forcing job termination")
	job := s.jobNumber()
	if job == 0 || s.run.Cancel(ui.SIGTERM) != nil {
		s.leave(code)
	}
	wait := s.Spec.Request.Policy.KillWait + endsWithin
	time.AfterFunc(wait, func() {
		ui.Say(fmt.Sprintf("job %d has not ended for %s after its cancel: leaving; see filch ps", job, filch.ShortTime(wait)))
		s.leave(code)
	})
}

func (s *Session) forward(sig os.Signal) {
	if n, ok := sig.(syscall.Signal); ok && !s.waiting() {
		_ = s.run.Signal(int32(n))
	}
}

// waiting reports whether no rank runs yet.
func (s *Session) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.begun
}

// jobNumber is the number of the job; 0 until the launcher accepts the job.
func (s *Session) jobNumber() filch.JobID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

// standing is the line for a first Ctrl-C.
func (s *Session) standing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Nodes == nil:
		return fmt.Sprintf("job %d: starting", s.job)
	case s.size == 1:
		return fmt.Sprintf("job %d rank 0 on %s: running", s.job, nodeNames(s.Nodes))
	}
	return fmt.Sprintf("job %d ranks 0-%d on %s: running", s.job, s.size-1, nodeNames(s.Nodes))
}

// abort asks the launcher to end the job as by Ctrl-C. Before a job exists there
// is nothing to wait for.
func (s *Session) abort() {
	job := s.jobNumber()
	if job == 0 {
		s.leave(filch.ExitInterrupt)
	}
	ui.Say(fmt.Sprintf("sending Ctrl-C to job %d", job))
	if s.run.Cancel(ui.SIGINT) != nil {
		s.leave(filch.ExitInterrupt)
	}
}
