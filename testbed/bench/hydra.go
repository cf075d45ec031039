package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hydra is MPICH's mpiexec; its hosts are loopback addresses, its proxies forked.
type hydra struct{ exe, program string }

func newHydra(dir string) (*hydra, error) {
	exe := firstOf("mpiexec.hydra", "mpiexec.mpich")
	if _, err := lookup(exe); err != nil {
		return nil, err
	}
	program, err := compile(dir, "mpicc.mpich", "initfini", initfini)
	return &hydra{exe: exe, program: program}, err
}

func (h *hydra) name() string { return "hydra" }
func (h *hydra) close()       {}

func (h *hydra) command(a ask) command {
	if a.what == openMPI {
		return command{}
	}
	argv := []string{h.exe}
	if a.hosts > 1 {
		hosts := make([]string, a.hosts)
		for i := range hosts {
			hosts[i] = fmt.Sprintf("127.0.0.%d:%d", i+1, max(1, a.ranks/a.hosts))
		}
		argv = append(argv, "-launcher", "fork", "-hosts", strings.Join(hosts, ","))
	}
	argv = append(argv, "-n", strconv.Itoa(a.ranks))
	return command{argv: append(argv, pick(a, h.program)), env: os.Environ()}
}

func pick(a ask, program string) string {
	if a.what != plain {
		return program
	}
	return "/bin/true"
}

// hosted is hydra on the very hosts that filch uses: its proxies are started in
// the namespaces of the four launchers. Pretended hosts that share memory let
// MPICH's ranks talk through it, which hosts cannot: only here do both launch
// the same MPI job.
type hosted struct {
	*hydra
	ssh string
}

// newHosted writes what hydra takes for ssh.
func newHosted(h *hydra, o *ours, scratch string) (*hosted, error) {
	if _, err := lookup("nsenter"); err != nil {
		return nil, err
	}
	list, err := o.nodes(o.env[4])
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		return nil, err
	}
	var script strings.Builder
	script.WriteString("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\ncase $1 in\n")
	for i, n := range list {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/uts", n.PID))
		if err != nil {
			return nil, err
		}
		if theirs == own {
			return nil, fmt.Errorf("the launchers have no namespaces of their own here")
		}
		script.WriteString(fmt.Sprintf("127.0.0.%d) pid=%d ;;\n", i+1, n.PID))
	}
	script.WriteString("esac\nshift\nexec nsenter -t $pid -u -i -m sh -c \"$*\"\n")
	r := &hosted{hydra: h, ssh: filepath.Join(scratch, "ssh")}
	return r, os.WriteFile(r.ssh, []byte(script.String()), 0o755)
}

func (h *hosted) name() string { return "in hosts" }

func (h *hosted) command(a ask) command {
	if a.hosts == 1 || a.what == openMPI {
		return command{}
	}
	c := h.hydra.command(a)
	for i, arg := range c.argv {
		if arg == "fork" {
			c.argv[i] = "ssh"
			c.argv = append(c.argv[:i+1:i+1], append([]string{"-launcher-exec", h.ssh}, c.argv[i+1:]...)...)
			break
		}
	}
	return c
}
