package cli

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// SayWait prints once, for a command that follows the output of a job, why there is none yet: of
// a held job at once, of a job that waits after SpeakLate, until stop is called.
func SayWait(dial func() (*client.Client, error), job filch.JobID) (stop func()) {
	over := make(chan struct{})
	go func() {
		for _, wait := range [...]time.Duration{0, SpeakLate} {
			select {
			case <-over:
				return
			case <-time.After(wait):
			}
			text := waitText(dial, job, wait > 0)
			select {
			case <-over:
				return
			default:
			}
			if text != "" {
				ui.Say(text)
				return
			}
		}
	}()
	return func() { close(over) }
}

// waitText says why a job has not begun; "" if the job has begun, and of a job that is not held
// without late.
func waitText(dial func() (*client.Client, error), job filch.JobID, late bool) string {
	c, err := dial()
	if err != nil {
		return ""
	}
	defer c.Close()
	var j launcher.JobInfo
	var e launcher.Explanation
	if Ask(c, QueryWait, &j, wire.VerbInfo, job.String()) != nil || j.Code != nil {
		return ""
	}
	begun := j.State == filch.Running.String() || j.Tasks.Running+j.Tasks.OK+j.Tasks.Failed+j.Tasks.Killed > 0
	switch {
	case begun:
		return ""
	case j.Held != "":
		return fmt.Sprintf("job %d prints nothing yet: it is held by %s; filch release %[1]d lets it begin", job, j.Held)
	case late && Ask(c, QueryWait, &e, wire.VerbExplain, job.String()) == nil && e.Text != "":
		return fmt.Sprintf("job %d prints nothing yet: it %s", job, e.Text)
	}
	return ""
}
