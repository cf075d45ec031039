package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

// jobEnv is the environment common to all ranks of the job on this node, on top of base.
func (j *job) jobEnv(base []string) []string {
	l := &j.order.Launch
	env := proc.Scrub(base, j.what.SlurmEnv)
	add := func(name, value string) { env = append(env, name+"="+value) }
	instance := j.keeper.place.Instance
	if instance == "" {
		instance = l.Ident.Instance
	}
	add("FILCH_INSTANCE", instance)
	add("FILCH_IDENT", l.Ident.String())
	add("FILCH_SOCKET", filepath.Join(j.keeper.place.Dir, "launcher.sock"))
	add("FILCH_JOB", l.Ident.Job.String())
	add("FILCH_ATTEMPT", strconv.Itoa(int(l.Ident.Attempt)))
	add("FILCH_SIZE", strconv.Itoa(int(l.Size)))
	add("FILCH_LOCAL_SIZE", strconv.Itoa(len(j.ranks)))
	add("FILCH_NODE", string(j.node()))
	add("FILCH_NODES", strconv.Itoa(len(l.Nodes)))
	add("FILCH_NODELIST", nodeList(l.Nodes))
	add("MPI_LOCALNRANKS", strconv.Itoa(len(j.ranks)))
	if _, ok := proc.LookupEnv(env, "GFORTRAN_UNBUFFERED_PRECONNECTED"); !ok {
		add("GFORTRAN_UNBUFFERED_PRECONNECTED", "y")
	}
	if j.what.SlurmEnv {
		env = append(env, j.slurmEnv()...)
	}
	return env
}

// rankEnv is the environment of r alone.
func (j *job) rankEnv(r *rank) []string {
	local := strconv.Itoa(r.local)
	id := strconv.Itoa(int(r.id))
	env := []string{
		"FILCH_RANK=" + id, "FILCH_LOCAL_RANK=" + local, "MPI_LOCALRANKID=" + local,
	}
	if j.what.SlurmEnv {
		env = append(env, "SLURM_PROCID="+id, "SLURM_LOCALID="+local)
	}
	return append(env, proc.GPUEnv(j.order.GPUs, r.local, len(j.ranks))...)
}

// slurmEnv is the private SLURM_* set: the set describes this job and nothing else, so an
// MPI library or a framework inside sees just the job's nodes (names as in srun(1),
// "OUTPUT ENVIRONMENT VARIABLES").
func (j *job) slurmEnv() []string {
	l := &j.order.Launch
	list := nodeList(l.Nodes)
	nodes := strconv.Itoa(len(l.Nodes))
	size := strconv.Itoa(int(l.Size))
	perNode := tasksPerNode(l.Nodes)
	ids := make([]string, len(j.ranks))
	for i, r := range j.ranks {
		ids[i] = strconv.Itoa(int(r.id))
	}
	host, _ := os.Hostname()
	id := l.Ident.Job.String()
	env := []string{
		"SLURM_JOB_ID=" + id, "SLURM_JOBID=" + id, "SLURM_JOB_NAME=" + l.Name,
		"SLURM_STEP_ID=0", "SLURM_STEPID=0",
		"SLURM_NTASKS=" + size, "SLURM_NPROCS=" + size, "SLURM_STEP_NUM_TASKS=" + size,
		"SLURM_NNODES=" + nodes, "SLURM_JOB_NUM_NODES=" + nodes, "SLURM_STEP_NUM_NODES=" + nodes,
		"SLURM_NODELIST=" + list, "SLURM_JOB_NODELIST=" + list, "SLURM_STEP_NODELIST=" + list,
		"SLURM_TASKS_PER_NODE=" + perNode, "SLURM_STEP_TASKS_PER_NODE=" + perNode,
		"SLURM_NODEID=" + strconv.Itoa(int(j.order.Index)), "SLURMD_NODENAME=" + string(j.node()),
		"SLURM_GTIDS=" + strings.Join(ids, ","),
		"SLURM_LAUNCH_NODE_IPADDR=" + string(l.Nodes[0].Node), "SLURM_SRUN_COMM_HOST=" + host,
		"SLURM_SUBMIT_DIR=" + j.what.Cwd, "SLURM_UMASK=" + fmt.Sprintf("%04o", j.what.Umask),
		"SLURM_RESTART_COUNT=" + strconv.Itoa(int(l.Ident.Attempt)-1),
	}
	if n := len(j.order.Cores); n > 0 {
		env = append(env, "SLURM_CPUS_ON_NODE="+strconv.Itoa(n))
		if each := n / len(j.ranks); each > 0 {
			env = append(env, "SLURM_CPUS_PER_TASK="+strconv.Itoa(each))
		}
	}
	return env
}

// tasksPerNode is Slurm's run-length list: "2(x3),1".
func tasksPerNode(nodes []launcher.NodeRanks) string {
	var parts []string
	for i := 0; i < len(nodes); {
		n, same := countRanks(nodes[i].Ranks), 1
		for i+same < len(nodes) && countRanks(nodes[i+same].Ranks) == n {
			same++
		}
		part := strconv.Itoa(n)
		if same > 1 {
			part += "(x" + strconv.Itoa(same) + ")"
		}
		parts = append(parts, part)
		i += same
	}
	return strings.Join(parts, ",")
}

func countRanks(spans []launcher.Span) int {
	n := 0
	for _, s := range spans {
		n += int(s.Count)
	}
	return n
}

// nodeList is the hostlist of the job's nodes in their order, with runs of
// numbers folded: "n[1-3,7],login".
func nodeList(nodes []launcher.NodeRanks) string {
	var b strings.Builder
	prefix, open := "", false
	for i := 0; i < len(nodes); {
		head, digits := splitNumber(nodes[i].Node)
		run := 1
		for i+run < len(nodes) && follows(nodes[i+run-1].Node, nodes[i+run].Node) {
			run++
		}
		_, last := splitNumber(nodes[i+run-1].Node)
		more := i+run < len(nodes) && sameFamily(nodes[i].Node, nodes[i+run].Node)
		if open && head == prefix {
			b.WriteByte(',')
		} else {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(head)
			if open = digits != "" && (run > 1 || more); open {
				b.WriteByte('[')
			}
			prefix = head
		}
		b.WriteString(digits)
		if run > 1 {
			b.WriteByte('-')
			b.WriteString(last)
		}
		if open && !more {
			b.WriteByte(']')
			open = false
		}
		i += run
	}
	return b.String()
}

// splitNumber cuts a name before its last digits.
func splitNumber(n filch.NodeName) (head, digits string) {
	s := string(n)
	head = strings.TrimRight(s, "0123456789")
	return head, s[len(head):]
}

// sameFamily reports whether two names can share brackets.
func sameFamily(a, b filch.NodeName) bool {
	ah, ad := splitNumber(a)
	bh, bd := splitNumber(b)
	return ah == bh && ad != "" && bd != ""
}

// follows reports whether b is the next name after a: n9 n10, n09 n10.
func follows(a, b filch.NodeName) bool {
	ah, ad := splitNumber(a)
	bh, bd := splitNumber(b)
	if ah != bh || ad == "" || len(ad) > 9 {
		return false
	}
	n, err := strconv.Atoi(ad)
	return err == nil && fmt.Sprintf("%0*d", len(ad), n+1) == bd
}
