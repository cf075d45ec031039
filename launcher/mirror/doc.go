// Package mirror keeps the files of a queue's mirror: the unfinished jobs of an
// instance when all of its nodes are gone.
//
// A queue is a folder in the home of its instance, HOME/queue/UUID, on a file system
// that all nodes share. Each launcher appends lines (see queue.Mirror) to a file of its
// own. An instance that continues the queue closes the queue, reads all files, writes
// the unfinished jobs into the folder of its own queue, and leaves behind one file that
// names the next queue: with this file the queue is handed over, and no other instance
// can continue the queue afterwards. An instance that dies earlier has changed nothing.
//
// Before starting a run-once task, a launcher appends a line, syncs the file and then
// checks whether the queue is closed. So either the launcher sees the close, or the
// closing instance sees the line.
package mirror
