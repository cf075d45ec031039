// Package mtc is many-task computing: bags of tasks kept as ranges, graphs with
// a ready-tracker, the queues of one node, and the stealing that balances them.
//
// A [Core] belongs to one node. It touches nothing: inputs are methods stamped
// with now, what is to be done is appended to an [Out], and timers are one
// question, [Core.Deadline]. It keeps no record itself: who owns which tasks and
// how each ended is agreed on in records at their homes (range, block, job and
// cap records), and the Core proposes changes of them and hears the answers.
// The merges of these records are pure functions over bytes; see [Merges].
//
// A queue entry is a cache; ownership is a committed record. A range of a bag
// belongs to the node that its zone's record names, a single task to the one
// that its block's record names, else to the owner of the range around it, else
// to the job's steward. A task that was never tried is started without a word
// to anybody, below the committed front of its range; every later try, and any
// start of a task that runs once, is committed before it begins.
package mtc
