package keeper

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmix"
	"github.com/filch-hpc/filch/launcher/proc"
)

// pmixNamespace is the name of a run for libpmix.
func pmixNamespace(i filch.Ident) string { return "filch-" + i.String() }

// pmixConfig describes the job to the engine of PMIx. libpmix keeps files in dir.
func (j *job) pmixConfig(dir string) pmix.Config {
	l := &j.order.Launch
	apps := make([]int32, l.Size)
	for i, p := range j.what.Programs {
		for _, s := range p.Ranks {
			for r := max(s.First, 0); r < s.First+filch.Rank(s.Count) && int(r) < len(apps); r++ {
				apps[r] = int32(i)
			}
		}
	}
	c := pmix.Config{
		Namespace: pmixNamespace(l.Ident), Dir: dir, Node: j.order.Index, Size: l.Size, Universe: max(l.Universe, l.Size), Apps: int32(len(j.what.Programs)),
		Nodes: make([]pmix.Node, len(l.Nodes)), Family: pmix.Family{Self: l.Ident, Top: l.Ident, Hub: l.Nodes[0].Node},
	}
	if s := j.what.Spawn; s != nil {
		c.Family.Top, c.Family.Hub = s.Top, s.Hub
		c.Family.Parent, c.Family.Rank = pmixNamespace(s.Parent), s.Rank
	}
	for i, n := range l.Nodes {
		c.Nodes[i].Name = string(n.Node)
		for _, s := range n.Ranks {
			for r := s.First; r < s.First+filch.Rank(s.Count) && int(r) < len(apps); r++ {
				c.Nodes[i].Ranks = append(c.Nodes[i].Ranks, r)
				c.Nodes[i].Apps = append(c.Nodes[i].Apps, apps[r])
			}
		}
	}
	return c
}

// pmixEnv is the environment of r: the variables for libpmix and for Open MPI. The user's
// value wins where several values would work.
func (w *wireup) pmixEnv(r *rank, shared []string) []string {
	env := append(shared[:len(shared):len(shared)], w.pmix.Env(r.id)...)
	add := func(name, value string) { env = append(env, name+"="+value) }
	choose := func(name, value string) {
		if _, given := proc.LookupEnv(shared, name); !given {
			add(name, value)
		}
	}
	// Version 4 otherwise runs each rank as a job of its own, as if started by hand.
	add("OMPI_MCA_schizo", "ompi")
	add("OMPI_MCA_orte_tmpdir_base", w.helper.scratch.Dir)
	if shm := w.helper.scratch.Shm; shm != "" {
		choose("OMPI_MCA_btl_vader_backing_directory", shm) // version 4
		choose("OMPI_MCA_btl_sm_backing_directory", shm)    // version 5
		choose("OMPI_MCA_osc_rdma_backing_directory", shm)
	}
	choose("OMPI_MCA_hwloc_base_binding_policy", "none") // the ranks are bound already
	if int(w.job.order.Spare) < len(w.job.ranks) {
		// Some ranks share a core: a waiting rank must let others run.
		choose("OMPI_MCA_mpi_yield_when_idle", "1")
	}
	if net := network(w.job.order.Net); net != "" && !choosesNetwork(shared) {
		add("OMPI_MCA_btl_tcp_if_include", net)
	}
	local := strconv.Itoa(r.local)
	add("OMPI_COMM_WORLD_RANK", strconv.Itoa(int(r.id)))
	add("OMPI_COMM_WORLD_SIZE", strconv.Itoa(int(w.job.order.Launch.Size)))
	add("OMPI_COMM_WORLD_LOCAL_RANK", local)
	add("OMPI_COMM_WORLD_LOCAL_SIZE", strconv.Itoa(len(w.job.ranks)))
	add("OMPI_COMM_WORLD_NODE_RANK", local)
	return env
}

// network is the IPv4 network of the interface with this address. By default Open MPI
// connects over all interfaces but the loopback, and hangs where an interface is a bridge
// of Docker. Over the bridge, messages between virtual nodes arrive from 127.0.0.1, by
// Docker's translation of addresses, and are refused; other machines cannot be reached
// over the bridge.
func network(address string) string {
	ip := net.ParseIP(address)
	if ip == nil {
		return ""
	}
	all, _ := net.Interfaces()
	for i := range all {
		addrs, _ := all[i].Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && (n.IP.Equal(ip) || ip.IsLoopback() && n.IP.IsLoopback() && n.Contains(ip)) {
				return network4(addrs)
			}
		}
	}
	return ""
}

// network4 is the first network of an interface in the notation that Open MPI reads,
// which has no IPv6; "" if there is none.
func network4(addrs []net.Addr) string {
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			return (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String()
		}
	}
	return ""
}

// choosesNetwork reports whether the user or the site has chosen the networks of Open
// MPI, by a list to include or a list to exclude: Open MPI accepts only one of the two
// lists.
func choosesNetwork(env []string) bool {
	const name = "btl_tcp_if_"
	for _, e := range env {
		if strings.HasPrefix(e, "OMPI_MCA_"+name) {
			return true
		}
	}
	home, _ := proc.LookupEnv(env, "HOME")
	for _, file := range []string{"/etc/openmpi/openmpi-mca-params.conf", filepath.Join(home, ".openmpi", "mca-params.conf")} {
		text, _ := os.ReadFile(file)
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(bytes.TrimSpace(line), []byte(name)) {
				return true
			}
		}
	}
	return false
}
