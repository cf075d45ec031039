// Package place says where filch's files live. The package refuses places that are not
// safe or not local, and socket peers of other users.
//
// State of a node (sockets, locks, logs, records) lives in BASE/INSTANCE/NODE, where
// BASE is filch-UID, mode 0700 and ours, in the first node-local directory of
// $FILCH_LOCAL, $SLURM_TMPDIR, $TMPDIR and /tmp. Only the secret and the contact file
// live in the home, which may be shared: ~/.filch/INSTANCE/. Every path of a socket
// stays under the 104 bytes of the smallest sockaddr_un; a hash replaces a name that is
// too long.
//
// The package is on the path of every client, so the package reads no configuration
// language and starts nothing.
package place
