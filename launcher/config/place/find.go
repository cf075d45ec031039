package place

import (
	"net"
	"os"
	"strings"

	"github.com/filch-hpc/filch"
)

// Wanted names the launcher that a client wants; empty fields are open.
type Wanted struct {
	Instance string // --instance
	Node     string // --node, for tests and for several launchers on one machine
}

// Connect finds the wanted launcher and connects to the launcher. Instance and node
// come from w, else from FILCH_INSTANCE and FILCH_NODE (which ranks have, so that a
// step goes to the launcher of its own node), else from the allocation, else from the
// only instance running here.
func Connect(w Wanted) (net.Conn, Dir, error) {
	base, err := Base()
	if err != nil {
		return nil, Dir{}, err
	}
	return connectIn(base, w, os.Getenv)
}

func connectIn(base string, w Wanted, env func(string) string) (net.Conn, Dir, error) {
	if w.Instance == "" {
		w.Instance = env("FILCH_INSTANCE")
		if w.Node == "" {
			w.Node = env("FILCH_NODE")
		}
	}
	if w.Instance == "" {
		if own := AllocationName(env); own != "" && len(Nodes(base, own)) > 0 {
			w.Instance = own
		}
	}
	if w.Instance != "" {
		if err := CheckInstance(w.Instance); err != nil {
			return nil, Dir{}, err
		}
	}
	conn, dir, others := tryAll(base, w)
	if conn == nil {
		return nil, Dir{}, notRunning(w, Nodes(base, w.Instance))
	}
	if len(others) > 0 {
		conn.Close()
		return nil, Dir{}, filch.Errorf(filch.Invalid, "%d instances run here: %s", len(others)+1, strings.Join(append([]string{dir.Instance}, others...), ", ")).
			WithHint("choose one with --instance NAME or FILCH_INSTANCE")
	}
	return conn, dir, nil
}

// tryAll connects to the first launcher that answers, the wanted node before its
// siblings, and returns the other answering instances.
func tryAll(base string, w Wanted) (conn net.Conn, dir Dir, others []string) {
	dirs := Nodes(base, w.Instance)
	for pass := range 2 {
		for _, d := range dirs {
			if pass == 0 && d.Node != w.Node || pass == 1 && (conn != nil && d.Instance == dir.Instance) {
				continue
			}
			if len(others) > 0 && others[len(others)-1] == d.Instance {
				continue
			}
			c, err := net.Dial("unix", d.Socket())
			if err != nil {
				continue
			}
			if conn == nil {
				conn, dir = c, d
				continue
			}
			c.Close()
			others = append(others, d.Instance)
		}
		if w.Instance != "" && conn != nil {
			break
		}
	}
	return conn, dir, others
}

func notRunning(w Wanted, dead []Dir) error {
	switch {
	case w.Instance != "" && len(dead) > 0:
		return filch.Errorf(filch.Unavailable, "no launcher of %s answers on this machine", w.Instance).
			WithHint("`filch up --instance %s` starts the launchers again", w.Instance)
	case w.Instance != "":
		return filch.Errorf(filch.NotFound, "no instance %s on this machine", w.Instance).
			WithHint("`filch up` starts an instance; `filch join` adds this machine to an instance")
	}
	return filch.Errorf(filch.Unavailable, "no launcher runs on this machine").
		WithHint("`filch up` starts an instance")
}

// AllocationName returns the name of the instance for the allocation of this process;
// "" outside of an allocation.
func AllocationName(env func(string) string) string {
	for _, v := range []struct{ name, prefix string }{
		{"SLURM_JOB_ID", "slurm-"}, {"PBS_JOBID", "pbs-"}, {"LSB_JOBID", "lsf-"}, {"FLUX_JOB_ID", "flux-"},
	} {
		id := env(v.name)
		if v.name == "PBS_JOBID" {
			id, _, _ = strings.Cut(id, ".")
		}
		if id != "" && ValidName(v.prefix+id) {
			return v.prefix + id
		}
	}
	return ""
}
