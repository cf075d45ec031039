// Package replay plays the tasks of a workflow with times and sizes but no commands, as
// real processes with real files.
//
// A process (the hidden command filch replay) plays a task: the process reads every input
// to its end and checks each byte, writes its outputs in the stated sizes, and takes the
// stated time. The content of a file follows from the file's name, the size and the
// content of all inputs of its task. A wrong, old or cut file anywhere upstream therefore
// shows in every file below, and the files at the end of a replay are the same for every
// schedule.
//
// [Of] makes the [Spec] of a task, [Spec.Args] writes a Spec as arguments and [Parse]
// reads the arguments; [Play] plays a Spec in the current folder. Each task appends two
// lines to a trace, at its start and at its end, from which testbed/replay checks the
// order.
package replay
