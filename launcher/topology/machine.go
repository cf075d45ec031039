package topology

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Machine is a machine's hardware threads.
type Machine struct {
	Threads []Thread // online, ascending by CPU
	Offline []int32  // CPUs that are present and switched off
	Allowed []int32  // CPUs of Threads that the process may use
}

// Thread is a hardware thread. Core and Socket count the parts of the machine from 0, in
// the order of their lowest CPU. Domain is the kernel's number of the NUMA node, 0 where
// the kernel has no NUMA nodes.
type Thread struct{ CPU, Core, Socket, Domain int32 }

// The folders of Linux, below the root.
const (
	cpuDir    = "sys/devices/system/cpu"
	nodeDir   = "sys/devices/system/node"
	cgroupDir = "sys/fs/cgroup"
)

// Read reads the machine below root. Read fails if neither the kernel's list of CPUs nor
// the process's mask can be read. A CPU without a description counts as a core of its own,
// in socket 0: some containers hide the descriptions.
func Read(root fs.FS) (Machine, error) {
	r := reader{root}
	own, owned := r.own()
	online, known := r.list(cpuDir + "/online")
	if !known {
		online = own
	}
	if len(online) == 0 {
		return Machine{}, filch.Errorf(filch.Internal, "cannot find the CPUs of this machine: neither /%s/online nor /proc/self/status can be read", cpuDir)
	}
	m := Machine{Allowed: online}
	if present, ok := r.list(cpuDir + "/present"); ok {
		m.Offline = without(present, online)
	}
	if owned {
		m.Allowed = both(m.Allowed, own)
	}
	if cpuset, ok := r.cpuset(); ok {
		m.Allowed = both(m.Allowed, cpuset)
	}
	if len(m.Allowed) == 0 {
		return Machine{}, filch.Errorf(filch.Internal, "this process may use none of the CPUs that are online (%s)", FormatList(online))
	}
	m.Threads = r.threads(online)
	return m, nil
}

// reader reads Linux's files.
type reader struct{ root fs.FS }

func (r reader) text(name string) (string, bool) {
	b, err := fs.ReadFile(r.root, name)
	return strings.TrimSpace(string(b)), err == nil
}

func (r reader) list(name string) ([]int32, bool) {
	s, ok := r.text(name)
	if !ok {
		return nil, false
	}
	cpus, err := parseList(s)
	return cpus, err == nil
}

func (r reader) number(name string) (int, bool) {
	s, ok := r.text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// own is the mask of the process itself, which taskset and sched_setaffinity set.
func (r reader) own() ([]int32, bool) {
	s, _ := r.text("proc/self/status")
	for line := range strings.Lines(s) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			cpus, err := parseList(list)
			return cpus, err == nil && len(cpus) > 0
		}
	}
	return nil, false
}

// cpuset is the list of CPUs of the process's cgroup: of version 2, else of version 1. A
// cgroup without the file has the list of its parent.
func (r reader) cpuset() ([]int32, bool) {
	s, ok := r.text("proc/self/cgroup")
	if !ok {
		return nil, false
	}
	for line := range strings.Lines(s) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		top, names := "", []string{"cpuset.effective_cpus", "cpuset.cpus"}
		switch {
		case f[0] == "0" && f[1] == "":
			names = []string{"cpuset.cpus.effective"}
		case slices.Contains(strings.Split(f[1], ","), "cpuset"):
			top = "cpuset"
		default:
			continue
		}
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
			for _, name := range names {
				if cpus, ok := r.list(path.Join(cgroupDir, top, dir, name)); ok && len(cpus) > 0 {
					return cpus, true
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return nil, false
}

// threads describes CPUs.
func (r reader) threads(online []int32) []Thread {
	type key struct{ a, b int }
	domains := r.domains(online)
	cores, sockets := map[key]int32{}, map[key]int32{}
	number := func(m map[key]int32, k key) int32 {
		n, known := m[k]
		if !known {
			n = int32(len(m))
			m[k] = n
		}
		return n
	}
	all := make([]Thread, len(online))
	for i, c := range online {
		dir := fmt.Sprintf("%s/cpu%d/topology/", cpuDir, c)
		core, socket := key{int(c), -1}, key{}
		if siblings := r.siblings(dir, "core_cpus_list", "thread_siblings_list", online); slices.Contains(siblings, c) {
			// Siblings with different core ids are a compute unit of AMD: cores.
			id, _ := r.number(dir + "core_id")
			core = key{int(siblings[0]), id}
		}
		if id, ok := r.number(dir + "physical_package_id"); ok && id >= 0 {
			socket = key{id, 0}
		} else if near := r.siblings(dir, "package_cpus_list", "core_siblings_list", online); slices.Contains(near, c) {
			socket = key{int(near[0]), 1}
		}
		all[i] = Thread{CPU: c, Core: number(cores, core), Socket: number(sockets, socket), Domain: domains[c]}
	}
	return all
}

// siblings reads a list of CPUs by its new or its old name, without CPUs that are offline.
func (r reader) siblings(dir, name, old string, online []int32) []int32 {
	cpus, ok := r.list(dir + name)
	if !ok {
		cpus, _ = r.list(dir + old)
	}
	return both(cpus, online)
}

// domains maps each CPU to its NUMA node. A node may have memory and no CPU. Of two nodes
// with the same CPU the first counts.
func (r reader) domains(online []int32) map[int32]int32 {
	of := make(map[int32]int32, len(online))
	nodes, _ := r.list(nodeDir + "/online")
	for _, n := range nodes {
		cpus, _ := r.list(fmt.Sprintf("%s/node%d/cpulist", nodeDir, n))
		for _, c := range cpus {
			if _, known := of[c]; !known {
				of[c] = n
			}
		}
	}
	return of
}
