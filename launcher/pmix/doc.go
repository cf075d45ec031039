// Package pmix is the wire-up of an MPI job through PMIx, for Open MPI and other programs
// that ask for PMIx: the part of a node.
//
// PMIx itself is libpmix. A small process for each job and node, pmixd in C, loads
// libpmix (see the folder pmixd). This package describes the job to pmixd and connects
// the servers of a job's nodes: by fences, which gather a blob from every node and give
// all blobs to each node, and by direct modex, which fetches a rank's data from the node
// of the rank.
//
// [Engine] has the same interface as the engine of launcher/pmi. The keeper feeds the
// engine the helper's bytes, as rank [Helper], frames of the other keepers, the ends of
// ranks, and time, and carries out the actions of an Out. The engine owns no descriptor,
// never blocks and never fails. [Command] makes the helper's command.
package pmix
