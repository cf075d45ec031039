// Package topology finds the processors of a machine: sockets, NUMA nodes, cores and
// hardware threads, and the CPUs that a process may use.
//
// [Read] reads Linux's files below a root folder: sys/devices/system/cpu,
// sys/devices/system/node, sys/fs/cgroup and proc/self. A launcher reads the files once, at
// its start. [Machine.Processors] makes the processors behind a launcher's slots, and [Choose]
// chooses the CPUs of a rank among the processors lent to its run. The package binds
// nothing and writes no file.
package topology
