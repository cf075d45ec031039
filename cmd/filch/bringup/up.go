package bringup

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// Limits of filch up.
const (
	maxVirtual    = 1024 // launchers on a machine
	nodesDefault  = 4
	joinWait      = 30 * time.Second // in which one more launcher must have joined
	PromisedNodes = 3                // with fewer nothing is promised about node death
)

// upOptions are the options of filch up.
type upOptions struct {
	*cli.Global
	nodes   int
	slots   int
	hint    string
	address string
	iface   string
	port    int
	kinds   kindFlags
	shaped  bool // any of the above was given

	hosts    string
	patience time.Duration
	shell    bool
	hold     int    // descriptor for the report to the parent
	pool     string // an invitation
	endOptions
	queueOptions
}

// The values of --hint: the processors behind slots.
const (
	hintThreads = "multithread"
	hintCores   = "nomultithread"
)

func hintVar(c *cobra.Command, hint *string) {
	c.Flags().StringVar(hint, "hint", "", "`HINT` multithread: slots are hardware threads; nomultithread: slots are cores (the default)")
}

// endOptions are the options about the end of an allocation.
type endOptions struct {
	ends   string
	drain  time.Duration
	learn  bool
	signal string

	given    map[string]bool // options on the command line
	end      time.Time       // from --ends; zero: no end
	warnSig  int32
	warnTime time.Duration
}

func UpCommand(g *cli.Global) *cobra.Command {
	o := &upOptions{Global: g}
	c := &cobra.Command{
		Use:     "up [OPTIONS] [-- COMMAND [ARGUMENTS]]",
		GroupID: "nodes",
		Short:   "start launchers on this machine, or on every node of an allocation",
		Long: `Starts an instance: several launchers on this machine, which divide the cores. Each
launcher is a node of its own, with its own host name and /dev/shm where the kernel
allows that. filch invite and filch join add other machines.

In a Slurm or PBS job, filch up starts a launcher on every node of the job, with the
slots that the job has there; the launchers end with the job. With --hosts, filch up
starts a launcher on every host over ssh, or over the command in FILCH_RSH. See
docs/allocations.md.

With a COMMAND, the instance ends when the command ends, and filch up exits with the
exit code of the command. When launchers of an instance on this machine have died, or
were stopped by filch down NODE, filch up starts these launchers again.`,
		Example: `  filch up                         four launchers, which divide the cores
  filch up --nodes 8 --slots 4     eight launchers with four slots each
  filch up --hint=multithread      a slot for each hardware thread, not for each core
  filch up --nodes 1 --iface eth0  one launcher that other machines can reach
  filch up --label n1:a100         n1 takes jobs that ask for an a100: run -C a100
  filch up -- make check           an instance for one command
  filch up -- ./campaign.sh        in a batch script: on all nodes of the job
  source <(filch up --shell)       the same, for the rest of the script
  filch up --hosts n[1-4]          on these hosts, over ssh
  filch up --resume slurm-4711     continue the unfinished tasks of that allocation`,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return filch.Errorf(filch.Invalid, "unexpected argument %s: a command must follow --", ui.Clean(args[0])).WithHint("filch up [OPTIONS] -- COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = map[string]bool{}
			for _, name := range []string{"nodes", "slots", "hint", "address", "iface", "port", "label", "resource", "role", "drain-bad", "metrics", "ends", "drain", "learn", "deadline", "signal"} {
				o.given[name] = cmd.Flags().Changed(name)
				o.shaped = o.shaped || o.given[name]
			}
			if o.given["slots"] && o.slots == 0 {
				o.slots = noSlots
			}
			o.chosen = cmd.Flags().Changed("mirror")
			return o.up(args)
		},
	}
	c.Flags().IntVar(&o.nodes, "nodes", 0, "start `N` launchers on this machine (default 4); in an allocation, use N of the nodes (default all)")
	c.Flags().IntVar(&o.slots, "slots", 0, "`N` slots per launcher; 0: the node starts no work (default: an equal share of the cores, at least 1)")
	hintVar(c, &o.hint)
	c.Flags().StringVar(&o.address, "address", "", "`IP` address to listen on (default 127.0.0.1)")
	c.Flags().StringVar(&o.iface, "iface", "", "network `INTERFACE` to listen on")
	c.Flags().IntVar(&o.port, "port", 0, "first `PORT` to listen on (default: any free ports)")
	o.kinds.declare(c.Flags())
	c.Flags().StringVar(&o.hosts, "hosts", "", "start launchers on these hosts over ssh: a `LIST`, or a file of hosts")
	c.Flags().StringVar(&o.ends, "ends", "", "`TIME` at which the nodes are taken away: +90m or +90 (minutes), 17:30, 2026-01-31T17:30 (default: from the batch system)")
	cli.TimeVar(c.Flags(), &o.patience, "deadline", patienceDefault, "wait this `TIME` for the nodes of an allocation to join")
	c.Flags().StringVar(&o.pool, "join", "", "add the nodes of this allocation to another instance, with the `FILE` that filch invite wrote")
	cli.TimeVar(c.Flags(), &o.drain, "drain", drainDefault, "in this last `TIME` of the allocation, start only jobs and tasks that are known to finish; 0: no such time")
	c.Flags().BoolVar(&o.learn, "learn", true, "do not start jobs and tasks that earlier runs show would outlive the allocation")
	c.Flags().StringVar(&o.signal, "signal", "", "send a signal to COMMAND before the end of the allocation: `SIG[@TIME]`, 60 or 60s, 10m (default 60s)")
	c.Flags().BoolVar(&o.mirror, "mirror", false, "keep the queue of tasks on a shared file system, for --resume (default: in a batch job)")
	c.Flags().StringVar(&o.resume, "resume", "", "continue the queue of tasks of instance `NAME`, which has ended")
	c.Flags().BoolVar(&o.shell, "shell", false, "print the variables for a shell: source <(filch up --shell)")
	c.Flags().IntVar(&o.hold, "hold", 0, "hold the instance, and report on this descriptor")
	_ = c.Flags().MarkHidden("hold")
	return c
}

// check refuses senseless option values.
func (o *upOptions) check(command []string) error {
	switch {
	case o.given["nodes"] && o.nodes == 0 || o.nodes < 0 || o.nodes > maxVirtual:
		return ui.Misused(filch.Errorf(filch.Invalid, "--nodes %d: 1 to %d launchers can be started", o.nodes, maxVirtual))
	case o.slots < noSlots || o.slots > 1<<16:
		return ui.Misused(filch.Errorf(filch.Invalid, "--slots %d: a node has 0 to %d slots", o.slots, 1<<16))
	case o.hint != "" && o.hint != hintThreads && o.hint != hintCores:
		return ui.Misused(filch.Errorf(filch.Invalid, "--hint %s: slots are hardware threads with %s, and cores with %s", strconv.Quote(o.hint), hintThreads, hintCores))
	case o.port < 0 || o.port > 65535:
		return ui.Misused(filch.Errorf(filch.Invalid, "--port %d: a port is 1 to 65535", o.port))
	case o.given["deadline"] && o.patience <= 0:
		return ui.Misused(filch.Errorf(filch.Invalid, "--deadline %v: the time must be positive", o.patience))
	case o.address != "" && o.iface != "":
		return ui.Misused(filch.Errorf(filch.Invalid, "--address and --iface exclude each other"))
	}
	if err := o.kinds.check(); err != nil {
		return err
	}
	return o.checkEnd(len(command) > 0)
}

func (o *upOptions) up(command []string) error {
	err := o.begin(command)
	if err != nil && o.shell {
		// Sourcing an empty output succeeds: false makes the script fail.
		fmt.Println("false")
	}
	return err
}

// checkNames refuses names that no instance can have.
func (o *upOptions) checkNames() error {
	if name := cmp.Or(o.Instance, os.Getenv("FILCH_INSTANCE")); name != "" {
		if err := place.CheckInstance(name); err != nil {
			return ui.Misused(err)
		}
	}
	if o.resume != "" {
		if err := place.CheckInstance(o.resume); err != nil {
			return ui.Misused(cli.OfOption("resume", err))
		}
	}
	return nil
}

func (o *upOptions) begin(command []string) error {
	if err := o.check(command); err != nil {
		return err
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	given, err := o.allocation()
	if err != nil {
		return err
	}
	if given != nil {
		return o.upNodes(given, command)
	}
	if err := o.checkHere(); err != nil {
		return err
	}
	if err := o.findQueue(o.pool != ""); err != nil {
		return err
	}
	if o.shell {
		return ui.Misused(filch.Errorf(filch.Invalid, "--shell needs an allocation or --hosts").WithHint("here: filch up"))
	}
	base, err := place.Base()
	if err != nil {
		return err
	}
	started := time.Now()
	host, err := o.listenHost()
	if err != nil {
		return err
	}
	secret := make([]byte, place.SecretBytes)
	if _, err := rand.Read(secret); err != nil {
		return filch.Errorf(filch.Internal, "cannot make a secret: %s", err.Error())
	}
	name, err := o.chooseName(base, secret, len(command) > 0)
	if err != nil {
		return err
	}
	b := &localNodes{base: base, instance: name, host: host, port: o.port, threads: o.hint == hintThreads, tied: len(command) > 0, secret: secret, kinds: o.kinds}
	b.queue, b.after, b.ending = o.mirror || o.old.from != "", o.old.last, o.ending(o.end)
	if dead, alive := b.survey(); len(dead)+len(alive) > 0 {
		switch stopped := place.Stopped(base, name); {
		case len(dead)+len(stopped) == 0 || b.tied || len(dead) == 0 && o.shaped:
			return alreadyUp(name, len(alive), stopped)
		case o.shaped:
			return filch.Errorf(filch.Busy, "%d of %s of %s on this machine have died", len(dead), filch.Plural(len(dead)+len(alive), "launcher"), name).
				WithHint("filch up --instance %s, without other options, starts them again; filch down --instance %s removes it", name, name)
		}
		return b.restart(dead, place.Stopped(base, name), alive)
	}
	err = b.start(o.nodes, o.slots)
	went := ""
	if err == nil {
		went, err = o.resumeOn(b.nodes[0])
	}
	if err != nil {
		b.clear()
		return b.withHint(err)
	}
	if went != "" {
		ui.Say(went)
	}
	if len(command) > 0 {
		return supervise(command, []string{"FILCH_INSTANCE=" + name}, func(p *os.Process) { o.watchEnd(name, o.end, warnCommand(p)) }, b.clear)
	}
	b.announce(time.Since(started))
	return nil
}

// withHint adds a hint about the port: the launcher does not know of --port.
func (b *localNodes) withHint(err error) error {
	var e *filch.Error
	if b.port > 0 && errors.As(err, &e) && e.Hint == "" {
		return e.WithHint("without --port, filch up chooses free ports")
	}
	return err
}

// chooseName is the name asked for, or a new name. Without a name, an instance
// already here is probably the intended one, unless the new instance is for a
// single command.
func (o *upOptions) chooseName(base string, secret []byte, forCommand bool) (string, error) {
	name := o.Instance
	if name == "" {
		name = os.Getenv("FILCH_INSTANCE")
	}
	if name == "" {
		name = place.AllocationName(os.Getenv)
	}
	if name == "" {
		name = o.resume
	}
	if err := o.clearOld(base, name); err != nil {
		return "", err
	}
	if name != "" {
		if err := place.CheckInstance(name); err != nil {
			return "", ui.Misused(err)
		}
		if len(place.Nodes(base, name)) > 0 {
			return name, nil
		}
		return name, refuseForeign(name)
	}
	if here := InstancesHere(base); len(here) > 0 && !forCommand {
		return here[0], nil
	}
	name = twoWords(secret)
	for n := 2; len(place.Nodes(base, name)) > 0 || refuseForeign(name) != nil; n++ {
		name = twoWords(secret) + "-" + strconv.Itoa(n)
	}
	return name, nil
}

func alreadyUp(name string, nodes int, stopped []place.Dir) error {
	if len(stopped) > 0 {
		return filch.Errorf(filch.Busy, "%s is up already: %s on this machine, and %s stopped", name, filch.Plural(nodes, "launcher"), listNodes(stopped)).
			WithHint("filch up --instance %s, without other options, starts what was stopped again", name)
	}
	return filch.Errorf(filch.Busy, "%s is up already: %s on this machine", name, filch.Plural(nodes, "launcher")).
		WithHint("use the instance with filch run, or start another instance: filch up --instance NAME")
}

// refuseForeign refuses a name whose secret exists though none of its launchers
// was ever here: the instance is on other machines with the same home.
func refuseForeign(name string) error {
	home, err := place.HomeOf(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(home.Secret()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filch.Errorf(filch.Busy, "an instance %s exists already, on other machines: %s", name, home.Secret()).
		WithHint("filch join adds this machine to the instance; if the instance ended long ago: rm -r %s", string(home))
}

// InstancesHere are the instances with a state directory on this machine.
func InstancesHere(base string) []string {
	var names []string
	for _, d := range place.Nodes(base, "") {
		if len(names) == 0 || names[len(names)-1] != d.Instance {
			names = append(names, d.Instance)
		}
	}
	return names
}

// announce prints the first text that a new user sees.
func (b *localNodes) announce(took time.Duration) {
	slots := 0
	list, _ := nodesOf(b.nodes[0]) // the slots of each node by its settings
	for _, n := range list {
		slots += int(n.Slots)
	}
	fmt.Printf("%s is up: %s, %s, on this machine (%s), in %s\n", b.instance,
		filch.Plural(len(b.nodes), "node"), filch.Plural(slots, "slot"), filch.Plural(len(b.machine), b.unit()), filch.ShortTime(took))
	which := "" // a command without the name is refused while several instances are here
	if len(InstancesHere(b.base)) > 1 && os.Getenv("FILCH_INSTANCE") != b.instance {
		which = " --instance " + b.instance
	}
	fmt.Printf("try   filch run%s -n %d hostname\nstop  filch down%[1]s\n", which, min(slots, 4))
	if len(b.nodes) < PromisedNodes {
		fmt.Printf("note  with fewer than %d nodes, the death of one may lose records and jobs\n", PromisedNodes)
	}
	if b.shared != nil && len(b.nodes) > 1 {
		fmt.Printf("note  no namespaces (%s): the nodes share a host name, and ranks get no shared memory\n", ui.Clean(b.shared.Error()))
	}
}
