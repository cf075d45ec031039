// Package ends carries the ends of tasks from the node that ran the tasks to the records:
// ends to blocks, the tallies of blocks to zones and the tallies of zones to the job's
// record. Of a graph's tasks the ends also go to the leader. The core calls [Recorder.End]
// for each ended task, and [Recorder.Flush] at the end of each input. The package never
// decides about a task: an end that came in is never changed.
package ends
