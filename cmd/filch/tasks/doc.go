// Package tasks has the commands for submitting many tasks: bags, open jobs,
// workflows and retries. The commands read the tasks, send the tasks to the
// launcher in frames, and show the progress.
package tasks
