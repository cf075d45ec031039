// Package slurm makes a real Slurm cluster of several nodes out of one machine,
// for tests and benches.
//
// Debian builds Slurm so that a host may run several slurmd, each with a name,
// a port and a spool folder of its own. Here each has also its own host name,
// System V memory and mounts: a /dev/shm, and a node-local folder that is at the
// same path on every node. All of them share the file system and the network, as
// nodes with a home on NFS do. munged, slurmctld and the slurmd use nothing
// outside of one folder, listen on the loopback, on ports that were free, and
// end with the process that started them, however it ends.
//
// It needs root, as any slurmd does.
package slurm
