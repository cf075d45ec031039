package alloc

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// The kinds of an allocation, by its source.
const (
	Slurm = "slurm"
	PBS   = "pbs"
	Hosts = "hosts" // a list of the user's own
)

// Allocation is a set of nodes.
type Allocation struct {
	Kind  string
	ID    string // from the batch system, "" of a list
	Nodes []Node
	End   time.Time // zero: not known
}

// Node is a node of the allocation with the resources granted there; 0 is all
// that the node has.
type Node struct {
	Name     string `json:"name"`
	Slots    int32  `json:"slots,omitempty"`
	MemBytes int64  `json:"memBytes,omitempty"`
}

// Names lists the nodes.
func (a *Allocation) Names() []filch.NodeName {
	names := make([]filch.NodeName, len(a.Nodes))
	for i, n := range a.Nodes {
		names[i] = filch.NodeName(n.Name)
	}
	return names
}

// Read reads the allocation from the environment; nil outside of an allocation,
// or if the environment names no nodes.
func Read(env func(string) string) (*Allocation, error) {
	switch {
	case env("SLURM_JOB_ID") != "" && env("SLURM_JOB_NODELIST") != "":
		return readSlurm(env)
	case env("PBS_JOBID") != "" && env("PBS_NODEFILE") != "":
		return readPBS(env)
	}
	return nil, nil
}

func readSlurm(env func(string) string) (*Allocation, error) {
	names, err := spec.Hosts(env("SLURM_JOB_NODELIST"))
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read SLURM_JOB_NODELIST: %s", place.Cause(err))
	}
	a := &Allocation{Kind: Slurm, ID: env("SLURM_JOB_ID")}
	cpus := repeated(env("SLURM_JOB_CPUS_PER_NODE"))
	perNode := number(env("SLURM_MEM_PER_NODE"))
	perCPU := number(env("SLURM_MEM_PER_CPU"))
	for i, name := range names {
		n := Node{Name: string(name)}
		if i < len(cpus) {
			n.Slots = cpus[i]
		}
		switch {
		case perNode > 0:
			n.MemBytes = perNode << 20
		case perCPU > 0:
			n.MemBytes = perCPU << 20 * int64(n.Slots)
		}
		a.Nodes = append(a.Nodes, n)
	}
	if end := number(env("SLURM_JOB_END_TIME")); end > 0 {
		a.End = time.Unix(end, 0)
	}
	return a, nil
}

// repeated reads Slurm's way of writing a number for each node, "4(x2),2".
func repeated(s string) []int32 {
	var all []int32
	for part := range strings.SplitSeq(s, ",") {
		count, times, many := strings.Cut(part, "(x")
		n, err := strconv.ParseInt(count, 10, 32)
		if err != nil || n < 1 {
			return nil
		}
		k := int64(1)
		if many {
			if k, err = strconv.ParseInt(strings.TrimSuffix(times, ")"), 10, 32); err != nil || k < 1 || k > spec.MaxHosts {
				return nil
			}
		}
		for range k {
			all = append(all, int32(n))
		}
	}
	return all
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n
}

// readPBS reads a node file: a line for each slot, or for each node of several
// slots (NCPUS).
func readPBS(env func(string) string) (*Allocation, error) {
	path := env("PBS_NODEFILE")
	text, err := readFile(path)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s of PBS_NODEFILE: %s", path, place.Cause(err))
	}
	a, err := parse(text, path)
	if err != nil {
		return nil, err
	}
	a.Kind = PBS
	a.ID, _, _ = strings.Cut(env("PBS_JOBID"), ".")
	each := int32(min(max(number(env("NCPUS")), number(env("PBS_NUM_PPN"))), 1<<16))
	for i := range a.Nodes {
		if a.Nodes[i].Slots == 0 {
			a.Nodes[i].Slots = max(each, 1)
		}
	}
	if seconds := number(env("PBS_WALLTIME")); seconds > 0 { // Torque's; counted from the start, which is about now
		a.End = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	return a, nil
}

// List reads the value of --hosts: a file when there is a slash in value or a
// file of this name exists, else a hostlist. A host may have :N or slots=N behind
// it; a host named several times has so many slots.
func List(value string) (*Allocation, error) {
	text, err := readFile(value)
	if err == nil {
		return parse(text, value)
	}
	if strings.Contains(value, "/") {
		return nil, filch.Errorf(filch.Invalid, "cannot read the host file %s: %s", value, place.Cause(err))
	}
	var lines []string
	for _, part := range splitList(value) {
		host, slots, counted := strings.Cut(part, ":")
		names, err := spec.Hosts(host)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "--hosts: %s", err.Error())
		}
		for _, n := range names {
			line := string(n)
			if counted {
				line += ":" + slots
			}
			lines = append(lines, line)
		}
	}
	return parse(strings.Join(lines, "\n"), "--hosts")
}

// splitList cuts at the commas outside of brackets.
func splitList(s string) []string {
	depth := 0
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return r == ',' && depth == 0
	})
}

// maxFile bounds a host file.
const maxFile = 4 << 20

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}

// parse reads lines of hosts; from is the source of text, for errors.
func parse(text, from string) (*Allocation, error) {
	a := &Allocation{Kind: Hosts}
	lines := map[string]int32{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		name, count, counted := strings.Cut(f[0], ":")
		for _, word := range f[1:] {
			if n, ok := strings.CutPrefix(word, "slots="); ok {
				count, counted = n, true
			}
		}
		if place.CheckNode(name) != nil {
			return nil, filch.Errorf(filch.Invalid, "%s: %s is not the name of a host", from, strconv.Quote(name))
		}
		i := slices.IndexFunc(a.Nodes, func(n Node) bool { return n.Name == name })
		if i < 0 {
			i = len(a.Nodes)
			a.Nodes = append(a.Nodes, Node{Name: name})
		}
		if counted {
			n, err := spec.Positive(count)
			if err != nil {
				return nil, filch.Errorf(filch.Invalid, "%s: host %s: %s", from, name, err.Error())
			}
			a.Nodes[i].Slots += n
		}
		lines[name]++
	}
	for i, n := range a.Nodes {
		if n.Slots == 0 && lines[n.Name] > 1 {
			a.Nodes[i].Slots = lines[n.Name]
		}
	}
	if len(a.Nodes) == 0 {
		return nil, filch.Errorf(filch.Invalid, "%s names no host", from)
	}
	return a, nil
}
