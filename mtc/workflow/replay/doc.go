// Package replay plays the tasks of a workflow that has times and sizes but no
// commands, as real processes with real files.
//
// A task is played by a process (the hidden command filch replay) that reads
// every input to its end and checks each byte, writes its outputs in the sizes
// that are stated, and takes the time that is stated. What a file holds follows
// from its name, its size and the content of all inputs of the task that wrote
// it, so a wrong, old or cut file anywhere upstream shows in every file below
// it, and the files at the end of a replay are the same for every schedule.
//
// [Of] makes the [Spec] of a task, [Spec.Args] writes it as arguments and
// [Parse] reads them; [Play] does it in the current folder. Each task appends
// two lines to a trace, at its start and at its end, from which testbed/replay
// checks the order.
package replay
