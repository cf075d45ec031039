package batch

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/pool"
)

// longQueued is the time in the queue of the batch system after which filch doctor says why.
const longQueued = 10 * time.Minute

// Trouble is a fault of a pool, as filch doctor says it.
type Trouble struct {
	Text   string
	Hint   string
	Broken bool // the pool asks for nothing, and no person wants that
}

// Troubles finds the faults of all pools of an instance.
func Troubles(c *client.Client) (found []Trouble, err error) {
	all, err := readAll(c)
	for _, p := range all {
		found = append(found, troubles(p, time.Now())...)
	}
	return found, err
}

func troubles(p *pool.Pool, now time.Time) (found []Trouble) {
	add := func(broken bool, hint, form string, args ...any) {
		found = append(found, Trouble{"the pool " + p.Name + " " + fmt.Sprintf(form, args...), hint, broken})
	}
	see := "filch pool shows the pool"
	if p.System == "slurm" {
		see = "the batch scripts print to ~/.filch/INSTANCE/pool-" + p.Name + "-JOB.log"
	}
	switch {
	case p.Removed:
		return nil
	case p.Paused != "":
		add(p.Bad > 0, "filch pool resume "+p.Name, "asks for nothing, it is paused: %s", p.Paused)
	case p.Bad > 0:
		add(false, see, "has had %s in a row: %s", filch.Plural(p.Bad, "failure"), p.Trouble)
	}
	for _, text := range []string{p.Silent, p.Large} {
		if text != "" {
			add(false, see, "has a trouble: %s", text)
		}
	}
	if p.Holder == "" {
		add(false, "a node with the commands of "+p.System+" must be in the instance, or use --via HOST", "is held by no node")
	}
	for i := range p.Allocs {
		a := &p.Allocs[i]
		waits := now.Sub(time.Unix(0, a.Planned))
		if a.State == pool.Queued && (waits >= longQueued || a.Held) {
			add(false, "the batch system decides when job "+a.Job+" starts", "has an allocation, job %s, in the queue for %s: %s", a.Job, filch.ShortTime(waits.Round(time.Second)), a.Said)
		}
	}
	return found
}
