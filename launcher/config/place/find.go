package place

import (
	"net"
	"os"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// Wanted names the launcher that a client wants; empty fields are open.
type Wanted struct {
	Instance string // --instance
	Node     string // --node, for tests and for several launchers on one machine: no other will do
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
	only := w.Node // FILCH_NODE is a preference: the launcher of a rank's node may be gone
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
	dirs := Nodes(base, w.Instance)
	wanted := slices.DeleteFunc(slices.Clone(dirs), func(d Dir) bool { return only != "" && d.Node != only })
	conn, dir, others := tryAll(wanted, w)
	if conn == nil {
		if only != "" && len(dirs) > 0 {
			return nil, Dir{}, noNode(only, dirs, len(wanted) > 0)
		}
		return nil, Dir{}, notRunning(w, dirs)
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
func tryAll(dirs []Dir, w Wanted) (conn net.Conn, dir Dir, others []string) {
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

// namesMax bounds the launchers that an error names.
const namesMax = 16

// noNode says that the launcher of a node is not here, or does not answer, and which are here.
func noNode(name string, dirs []Dir, silent bool) error {
	err := filch.Errorf(filch.NotFound, "no launcher of node %s on this machine", name)
	if silent {
		err = filch.Errorf(filch.Unavailable, "the launcher of node %s does not answer", name)
	}
	var names []string
	for _, d := range dirs[:min(len(dirs), namesMax)] {
		names = append(names, d.Node+" of "+d.Instance)
	}
	if len(dirs) > namesMax {
		names = append(names, "...")
	}
	return err.WithHint("launchers on this machine: %s", strings.Join(names, ", "))
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
