// Package mtc is many-task computing: bags of tasks kept as ranges, graphs with a
// ready-tracker, the queues of a node, and the stealing that balances the queues.
//
// A [Core] belongs to a single node and does no I/O. Inputs are methods stamped with now,
// the Core appends its actions to an [Out], and timers are a single question,
// [Core.Deadline]. The Core keeps no record itself. Ownership and the ends of tasks are
// agreed on in records at their homes (range, block, job and cap records); the Core
// proposes changes of these records and receives the answers. Package record holds the
// records, package policy the choices, and package queue the state that outlives the
// nodes.
//
// Core routes each input to its part: execution starts tasks, package ends records their
// ends, thief and victim balance the load, mover places tasks by their input, failover
// takes over the jobs, ranges and tasks of dead nodes, and commits repeats proposals
// whose outcome is unknown. Each part has its own state, a pointer to Core, and the turn.
//
// A queue entry is a cache; ownership is a committed record. A range of a bag belongs to
// the node in its zone's record. A single task belongs to the node in its block's record,
// else to the owner of the range around the task, else to the job's leader. A node starts
// a task without a proposal if no node tried the task before and its index is below the
// committed front of its range. Every later try, and any start of a task of a job with
// Once, is committed before the start.
package mtc
