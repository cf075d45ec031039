package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

const (
	// beginWait bounds the time in which an allocation joins the instance, or goes on with
	// its queue: several that start at once after the end of the instance want to.
	beginWait = 2 * time.Minute
	// beginEvery is the time between two tries.
	beginEvery = 2 * time.Second
)

// beginCommand is filch pool begin, the batch script of an allocation.
func beginCommand() *cobra.Command {
	return &cobra.Command{
		Use: "begin POOL N INVITATION", Hidden: true, Args: cobra.ExactArgs(3), Short: "join the instance of a pool, or go on with the queue of the instance",
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return ui.Misused(filch.Errorf(filch.Invalid, "%.40q is not the number of an allocation", args[1]))
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			b := &beginning{self: self, pool: args[0], n: n, invitation: args[2], home: place.Home(filepath.Dir(args[2]))}
			return b.begin()
		},
	}
}

// beginning is an allocation whose batch job has started.
type beginning struct {
	self       string // the filch program
	pool       string
	n          int64
	invitation string // in the home of the instance
	home       place.Home
}

func (b *beginning) begin() error {
	for deadline := time.Now().Add(beginWait); ; time.Sleep(beginEvery) {
		if b.answered() {
			args := []string{b.self, "up", "--join", b.invitation, "--", b.self, "pool", "stay", b.pool, strconv.FormatInt(b.n, 10)}
			return unix.Exec(b.self, args, os.Environ())
		}
		record, err := b.record()
		if err != nil {
			ui.Say("the instance has ended, and left no queue to go on with: " + err.Error())
			return nil
		}
		began := time.Now()
		err = b.resume(record)
		_ = os.Remove(record)
		// Another allocation may be about to resume the queue: then this one joins.
		if err == nil || time.Since(began) > beginWait || time.Now().After(deadline) {
			return err
		}
	}
}

// answered tells whether a launcher of the invitation answers.
func (b *beginning) answered() bool {
	text, err := place.ReadPrivate(b.invitation)
	contact := place.Contact{}
	return err == nil && json.Unmarshal(text, &contact) == nil && contact.Answering() != ""
}

// record copies the record of the pool, which lies beside the queue of the instance: the queue
// goes when another instance continues it.
func (b *beginning) record() (path string, err error) {
	q, err := mirror.Latest(b.home)
	if err != nil {
		return "", err
	}
	text, err := place.ReadPrivate(recordPath(q, b.pool))
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "filch-pool-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return f.Name(), errors.Join(err, f.Close())
}

// resume starts the instance again, on the nodes of this allocation, with its queue and the
// record of the pool.
func (b *beginning) resume(record string) error {
	instance := filepath.Base(string(b.home))
	p := exec.Command(b.self, "--instance", instance, "up", "--resume", instance, "--", b.self, "pool", "stay", "--record", record, b.pool, strconv.FormatInt(b.n, 10))
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	err := p.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return ui.Exit(ui.CodeOf(exit.ProcessState))
	}
	return err
}

// recordPath is the file with the record of a pool beside a queue of tasks.
func recordPath(q mirror.Queue, name string) string {
	return filepath.Join(string(q), "pool-"+name+".json")
}

// mirrorPool writes the record of a pool beside the queue of tasks, if the instance keeps its
// queue on a file system: allocations that start after the end of the instance go on with both.
func (k *holder) mirrorPool(p *pool.Pool, h *held) error {
	home, err := place.HomeOf(k.dir.Instance)
	if err != nil {
		return err
	}
	q := mirror.Of(home, k.uuid)
	if info, err := os.Stat(string(q)); err != nil || !info.IsDir() {
		return nil
	}
	var state strings.Builder
	for i := range p.Allocs {
		fmt.Fprintf(&state, "%d %s %s\n", p.Allocs[i].N, p.Allocs[i].State, p.Allocs[i].Job)
	}
	fmt.Fprint(&state, p.Next, p.Paused, p.Removed)
	if state.String() == h.mirrored {
		return nil
	}
	if err := place.WritePrivate(recordPath(q, p.Name), p.Encode()); err != nil {
		return err
	}
	h.mirrored = state.String()
	return nil
}

// restore defines the pool of an instance that has ended in the instance that goes on with its
// queue, and writes an invitation for the other allocations of the pool.
func restore(c *client.Client, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot read the record of the pool: %s", ui.Cause(err))
	}
	p, err := pool.Decode(text)
	if err != nil {
		return err
	}
	p.Holder = ""
	p.Beat++
	known, _, err := pools.List(c)
	if err == nil {
		err = publish(c, p, dht.Version{}, known)
	}
	if err != nil {
		return err
	}
	home, err := place.HomeOf(c.Dir.Instance)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, "--instance", c.Dir.Instance, "invite", "-o", invitationPath(home, p.Name)).CombinedOutput()
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot write the invitation of the pool: %s", strings.TrimSpace(string(out)))
	}
	ui.Say(fmt.Sprintf("the pool %s goes on with %s", p.Name, filch.Plural(len(p.Allocs), "allocation")))
	return nil
}

func invitationPath(home place.Home, name string) string {
	return filepath.Join(string(home), "pool-"+name+".invitation")
}

// publish defines a pool, and tells the launcher that the instance has a pool.
func publish(c *client.Client, p *pool.Pool, was dht.Version, known []string) error {
	if err := pools.Define(c, p, was, known); err != nil {
		return err
	}
	return cli.Ask(c, cli.QueryWait, nil, wire.VerbGrows) // other nodes find the pool in the store
}
