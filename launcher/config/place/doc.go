// Package place says where filch's files live and refuses places that are not
// safe or not local, and the other end of a socket that is not this user's.
//
// State of a node (sockets, locks, logs, records) lives in
// BASE/INSTANCE/NODE, where BASE is filch-UID, mode 0700 and ours, in the
// first node-local directory of $FILCH_LOCAL, $SLURM_TMPDIR, $TMPDIR and /tmp.
// Only the secret and the contact file live in the home, which may be shared:
// ~/.filch/INSTANCE/. Every path of a socket stays under the 104 bytes that
// the smallest sockaddr_un takes; where a name is too long for that, a hash
// stands for it.
//
// The package is on the path of every client, so it reads no configuration
// language and starts nothing.
package place
