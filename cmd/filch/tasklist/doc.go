// Package tasklist has the listing of the tasks of a job: the command filch tasks,
// GNU parallel's job log, and tasks by their names.
package tasklist
