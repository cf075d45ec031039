// Package pmix is the wire-up of an MPI job through PMIx, for Open MPI and
// whatever else asks for it: one node's part in it.
//
// PMIx itself is libpmix, which a small process of its own loads: pmixd, in C,
// one for each job and node (see the folder pmixd). Here is what tells it about
// the job, and what stands between the servers of a job's nodes: fences, which
// gather a blob of every node and give all of them to each, and direct modex,
// which fetches what one rank has put from the node that has it.
//
// [Engine] is behind the same port as that of launcher/pmi: the keeper feeds it
// what the helper wrote, as rank [Helper], frames of the other keepers, the ends
// of ranks, and time, and does what an Out says. It owns no descriptor, never
// blocks and never fails. [Start] makes the helper's command.
package pmix
