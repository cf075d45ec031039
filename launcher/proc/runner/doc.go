// Package runner is the process that starts the tasks of many-task jobs on a node.
//
// A launcher keeps some runners and sends each runner a [launcher.TaskOrder] per job and
// a [launcher.TaskStart] per task. A runner forks the tasks on its single locked thread,
// keeps their output in segments under a quota, and reports each end. A runner has no
// socket: when its launcher is gone, the runner ends its tasks and exits.
package runner
