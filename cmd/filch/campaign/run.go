package campaign

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/batch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

const (
	// poolEvery is the time between two looks at the pool.
	poolEvery = time.Second
	// goneWait bounds the wait for the end of the allocations: a batch system may not answer
	// for minutes.
	goneWait = 5 * time.Minute
)

// run is one filch campaign.
type run struct {
	*options
	system   []string // the batch system and its options
	words    []string // the file, or the words for filch submit
	folder   string   // of the tasks' output; "": the words say where the output goes
	name     string
	instance string
	own      bool // the campaign starts the instance, and takes it down
	resumed  bool // the instance goes on with the queue of an instance that was lost
}

func (r *run) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	err := r.campaign(ctx)
	if ctx.Err() == nil {
		return err
	}
	text := fmt.Sprintf("the campaign %s goes on; the same command line comes back to it", r.name)
	if r.own {
		text += ", and filch down --instance " + r.instance + " ends it"
	}
	ui.Say(text)
	return ui.Exit(filch.ExitInterrupt)
}

func (r *run) campaign(ctx context.Context) error {
	fresh, err := r.up()
	if err != nil {
		return err
	}
	job, err := r.begin()
	switch {
	case err != nil && fresh:
		_ = r.filch(nil, "down") // nothing was submitted
		return err
	case err != nil || ctx.Err() != nil:
		return err
	case job == 0:
		ui.Say("all tasks of the campaign had ended before; filch history --all lists its job")
		return r.end(ctx)
	}
	ended := r.wait(ctx, job)
	if ctx.Err() != nil || ended != nil && !byJob(ended) {
		return ended
	}
	if err := r.tell(job); err != nil {
		return err
	}
	if err := r.end(ctx); err != nil {
		return err
	}
	return ended
}

// begin finds the job of the campaign, or submits the job, and defines the pool. Job 0: the
// queue of a lost instance had no task left.
func (r *run) begin() (job filch.JobID, err error) {
	c, err := r.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	j, err := r.find(c)
	switch {
	case err != nil:
		return 0, err
	case j == nil && r.resumed:
		return 0, nil
	case j != nil && j.Open:
		return 0, filch.Errorf(filch.Invalid, "the tasks of job %d were not sent whole: the command that sent them was killed", j.ID).
			WithHint("filch cancel %d, filch close %[1]d, and the same command line again", j.ID)
	case j != nil:
		ui.Say(fmt.Sprintf("back in the campaign %s: job %d, %s", r.name, j.ID, j.State))
		if j.Code != nil {
			return j.ID, nil
		}
	}
	p, _, err := pools.Read(c, r.poolName())
	if err != nil {
		return 0, err
	}
	if p == nil || p.Gone() {
		if err := r.filch(nil, r.poolAdd()...); err != nil {
			return 0, err
		}
	}
	if j != nil {
		return j.ID, nil
	}
	return r.submit()
}

// find finds the job of the campaign; nil: it was not submitted. In an instance of others, a
// job that has ended is of an earlier campaign.
func (r *run) find(c *client.Client) (*launcher.JobInfo, error) {
	list, err := cli.QueryJobs(c)
	if err != nil {
		return nil, err
	}
	var last *launcher.JobInfo
	for i := range list {
		j := &list[i]
		if j.Name == r.name && j.Parent == 0 && cli.IsTasks(j) && (r.own || j.Code == nil) && (last == nil || j.ID > last.ID) {
			last = j
		}
	}
	return last, nil
}

func (r *run) dial() (*client.Client, error) {
	return client.Dial(client.Options{Instance: r.instance, Node: r.Node, Build: cli.Build})
}

// poolName is the name of the pool. The instance of the campaign has one pool.
func (r *run) poolName() string {
	if r.own {
		return r.system[0]
	}
	return r.name
}

// wait waits for the end of the job, with its progress, and tells what happens to the pool.
func (r *run) wait(ctx context.Context, job filch.JobID) error {
	watch, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.watch(watch)
	}()
	defer func() {
		stop()
		<-gone
	}()
	ui.Say(fmt.Sprintf("the campaign %s is job %d; filch pool --instance %s shows its allocations", r.name, job, r.instance))
	return r.filchUntil(ctx, os.Stdout, "wait", job.String(), "--progress", "--quiet")
}

// watch prints the troubles of the pool, each once.
func (r *run) watch(ctx context.Context) {
	told := ""
	tick := time.NewTicker(poolEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c, err := r.dial()
		if err != nil {
			continue
		}
		p, _, err := pools.Read(c, r.poolName())
		c.Close()
		if err != nil || p == nil {
			continue
		}
		text := ""
		switch {
		case p.Paused != "":
			text = fmt.Sprintf("the pool %s asks for nothing more: %s; filch pool resume %[1]s --instance %[3]s lets it ask again", p.Name, p.Paused, r.instance)
		case p.Trouble != "":
			text = fmt.Sprintf("the pool %s: %s", p.Name, p.Trouble)
		}
		if text != told && text != "" {
			ui.Say(text)
		}
		told = text
	}
}

// tell prints how the tasks ended, and writes the job log.
func (r *run) tell(job filch.JobID) error {
	c, err := r.dial()
	if err != nil {
		return err
	}
	var j launcher.JobInfo
	err = cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, job.String())
	c.Close()
	if err != nil {
		return err
	}
	where := ""
	if r.folder != "" {
		where = "; what they printed is in " + r.folder + ", and how each ended in " + r.log()
		if err := r.writeLog(job); err != nil {
			return err
		}
	}
	ui.Say(fmt.Sprintf("job %d: %s%s", job, countsText(&j.Tasks), where))
	return nil
}

func countsText(n *launcher.TaskCounts) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %s ended well", n.OK, filch.Plural(int(n.Total), "task"))
	for _, s := range []filch.State{filch.Failed, filch.Killed, filch.Lost, filch.Skipped, filch.Cancelled} {
		if k := *n.Of(s); k > 0 {
			fmt.Fprintf(&text, ", %d %s", k, s)
		}
	}
	return text.String()
}

func (r *run) log() string { return filepath.Join(r.folder, "joblog") }

func (r *run) writeLog(job filch.JobID) error {
	if err := os.MkdirAll(r.folder, 0o777); err != nil {
		return filch.Errorf(filch.Unavailable, "cannot make the folder %s: %s", r.folder, ui.Cause(err))
	}
	f, err := os.Create(r.log())
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot write the job log: %s", ui.Cause(err))
	}
	err = r.filch(f, "tasks", job.String(), "--joblog")
	if e := f.Close(); err == nil && e != nil {
		err = filch.Errorf(filch.Unavailable, "cannot write the job log %s: %s", r.log(), ui.Cause(e))
	}
	return err
}

// end gives all allocations back, prints the cost, and takes the instance of the campaign
// down.
func (r *run) end(ctx context.Context) error {
	p, err := r.giveBack(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if p != nil {
		sum := p.Cost()
		ui.Say("cost: " + batch.CostText(&sum))
	}
	if !r.own {
		return nil
	}
	return r.filch(nil, "down")
}

// giveBack removes the pool, and returns its record when the last allocation has ended.
func (r *run) giveBack(ctx context.Context) (*pool.Pool, error) {
	c, err := r.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	p, _, err := pools.Read(c, r.poolName())
	if err != nil || p == nil {
		return nil, err
	}
	if !p.Removed {
		if err := batch.Remove(c, p.Name); err != nil {
			return nil, err
		}
	}
	speak := time.AfterFunc(cli.SpeakLate, func() { ui.Say("waiting for the end of the allocations") })
	defer speak.Stop()
	for deadline := time.Now().Add(goneWait); ; {
		if p, _, err = pools.Read(c, p.Name); err != nil || p == nil || p.Gone() {
			return p, err
		}
		if time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Timeout, "%s of the pool %s did not end within %s", filch.Plural(len(p.Allocs), "allocation"), p.Name, filch.ShortTime(goneWait)).
				WithHint("filch pool --instance %s shows why; the same command line waits again", r.instance)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(poolEvery):
		}
	}
}
