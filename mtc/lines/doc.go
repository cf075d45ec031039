// Package lines is the lines of tasks, in the payload records of a job: [Lines] has those that a
// node has read, and a [Reader] looks up the others, and gives up the lines of which a dead node
// wrote none. The package never starts or ends a task.
package lines
