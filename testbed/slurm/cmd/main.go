// Command cmd brings up a Slurm cluster of virtual nodes on this machine, runs a
// command on its login node, and takes the cluster down when the command ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/filch-hpc/filch/testbed/slurm"
)

func main() { os.Exit(run()) }

func run() int {
	nodes := flag.Int("nodes", 4, "nodes")
	cpus := flag.Int("cpus", 4, "CPUs of each")
	gpus := flag.Int("gpus", 0, "GPUs of each, which do nothing")
	flag.Parse()
	argv := flag.Args()
	if len(argv) == 0 {
		argv = []string{"sh"}
	}
	dir, err := os.MkdirTemp("/tmp", "slurm")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT) // they are the command's
	c, err := slurm.Open(slurm.Options{Nodes: *nodes, CPUs: *cpus, GPUs: *gpus, Dir: dir})
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	cmd := c.Command(context.Background(), argv...)
	cmd.Env = append(cmd.Env, "FILCH_LOCAL="+c.Local())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.ExitCode()
	}
	return fail(err)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "slurm:", err)
	return 1
}
