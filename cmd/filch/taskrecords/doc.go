// Package taskrecords reads the records of a job of tasks: the job, its blocks of
// tasks, and the payloads of the tasks.
package taskrecords
