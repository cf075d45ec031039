package cli

import (
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// OnInterrupt calls f when the user interrupts the command, and ends the command. Stop
// ends the watch; it waits for f.
func OnInterrupt(f func()) (stop func()) {
	heard, over, gone := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(heard, os.Interrupt)
	go func() {
		defer close(gone)
		select {
		case <-over:
		case <-heard:
			f()
			os.Exit(filch.ExitInterrupt)
		}
	}()
	return func() {
		signal.Stop(heard)
		close(over)
		<-gone
	}
}

// SayOnInterrupt prints, when the user interrupts a command that waits for jobs, how the
// user comes back to the jobs, and ends the command. Left returns the jobs that are not
// known to have ended; the jobs go on. Stop ends the watch.
func SayOnInterrupt(left func() []filch.JobID) (stop func()) {
	return OnInterrupt(func() { ui.Say(goOnText(left())) })
}

// interruptLate is how long a silent wait must last before the command watches for an
// interrupt. A watch costs a thread, and a tenth of the CPU of a command whose job ends at once.
const interruptLate = 100 * time.Millisecond

// SayOnLateInterrupt is [SayOnInterrupt] from interruptLate on, for a command that prints
// nothing while it waits. Before, an interrupt ends the command without a word.
func SayOnLateInterrupt(left func() []filch.JobID) (stop func()) {
	watched := make(chan func(), 1)
	begin := time.AfterFunc(interruptLate, func() { watched <- SayOnInterrupt(left) })
	return func() {
		if !begin.Stop() {
			(<-watched)()
		}
	}
}

// goOnText says that jobs go on, and the command that waits for them.
func goOnText(jobs []filch.JobID) string {
	var ids []string
	for _, id := range jobs {
		ids = append(ids, id.String())
	}
	switch list := strings.Join(ids, " "); len(ids) {
	case 0:
		return "interrupted"
	case 1:
		return "job " + list + " goes on; filch wait " + list + " waits for the end, filch cancel " + list + " ends the job"
	default:
		return "jobs " + list + " go on; filch wait " + list + " waits for the end"
	}
}
