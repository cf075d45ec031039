// Package plan orders the tasks of a workflow by the critical path (ADAGE, III): the
// bottom level of a task is the time of the longest chain of tasks from the task's start
// to the end of the workflow. The leader of the workflow keeps a [Plan], takes in how
// long tasks took, and gives each ready task its level.
package plan
