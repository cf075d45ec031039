// Package tasks runs mtc.Core by the thousand in virtual time, under faults
// that a seed decides.
//
// A [World] owns the clock, the network, the processes, a failure detector and
// a store that is linearizable but slow, and whose answers get lost. It drives
// the very Core that the launcher drives and holds no policy of its own. The
// checkers believe what the processes did, never what a Core says of itself.
package tasks
