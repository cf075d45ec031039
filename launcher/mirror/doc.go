// Package mirror keeps the files of a queue's mirror: what is left of the jobs
// of an instance when all of its nodes are gone.
//
// A queue is a folder in the home of its instance, HOME/queue/UUID, on a file
// system that all nodes share. Each launcher appends lines (see mtc.Mirror) to
// a file of its own. An instance that goes on with it closes the queue, reads
// all files, writes what is left into the folder of its own queue, and leaves
// one file behind that names the next queue: at that moment, and by nobody else
// afterwards, the queue is handed over. Whoever dies in between has changed
// nothing.
//
// A launcher that is about to start a task that runs once appends a line,
// syncs it and then looks whether the queue is closed. So either it sees that,
// or who closed the queue sees the line.
package mirror
