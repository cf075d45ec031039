// Package progress is the line that tells how far a job of tasks is: on a terminal one line
// that is drawn again, else a line now and then. Package progress starts and ends no job.
package progress
