package machinetree

// Named is a machine with a name for tests.
type Named struct {
	Name string
	Machine
}

// Machines are all machines that tests generate: a test that goes through the list holds for
// every layout.
var Machines = []Named{
	{"one-cpu", Machine{Sockets: 1, Cores: 1}},
	{"smt-2", Machine{Sockets: 1, Cores: 4, Threads: 2}},
	{"smt-2-adjacent", Machine{Sockets: 1, Cores: 2, Threads: 2, Adjacent: true}},
	{"smt-4-old-names", Machine{Sockets: 1, Cores: 2, Threads: 4, Adjacent: true, Old: true}},
	{"two-sockets", Machine{Sockets: 2, Cores: 2, Threads: 2}},
	{"two-domains-in-a-socket", Machine{Sockets: 1, Domains: 2, Cores: 2}},
	{"memory-only-node", Machine{Sockets: 1, Cores: 2, Memory: 2}},
	{"no-numa", Machine{Sockets: 2, Cores: 1, NoNodes: true}},
	{"offline-thread", Machine{Sockets: 1, Cores: 2, Threads: 2, Offline: []int{2}}},
	{"offline-first-cpu", Machine{Sockets: 2, Cores: 2, Offline: []int{0}}},
	{"mask-cuts-cores", Machine{Sockets: 1, Cores: 4, Threads: 2, Own: "0-5"}},
	{"mask-wider-than-online", Machine{Sockets: 1, Cores: 2, Own: "0-31"}},
	{"cgroup-1", Machine{Sockets: 2, Cores: 2, Cpuset1: "1-2"}},
	{"cgroup-2-and-mask", Machine{Sockets: 2, Cores: 2, Cpuset2: "1-3", Own: "0-2"}},
	{"eight-numa-nodes", Machine{Sockets: 2, Domains: 4, Cores: 16, Threads: 2}},
	{"2048-cpus", Machine{Sockets: 16, Cores: 64, Threads: 2}},
	{"two-sockets-of-four", Machine{Sockets: 2, Cores: 4, Threads: 2}},
	{"eight-small-numa-nodes", Machine{Sockets: 2, Domains: 4, Cores: 4, Threads: 2}},
	{"offline-cores", Machine{Sockets: 2, Cores: 4, Offline: []int{1, 2}}},
}

// Of returns a machine by its name.
func Of(name string) Machine {
	for _, m := range Machines {
		if m.Name == name {
			return m.Machine
		}
	}
	panic("machinetree: no machine " + name)
}
