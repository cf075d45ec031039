// Package workflow reads submissions of many tasks, workflow files and task lists, into a
// neutral form.
//
// [Load] reads a workflow file (WfFormat, Pegasus DAX, or filch's own YAML or JSON form)
// into a [Graph]: tasks, files and edges, checked and bounded, with no cycle and a single
// writer for every file. [Bag] is a list of tasks without edges, never unfolded: an
// array, the combinations of lists, or lines. [Bag.Argv] makes the command of a single
// task, by index. [Lines] and [Entries] read lists task by task, for callers that send a
// list in pieces.
//
// YAML is read by a function that the caller gives ([Options].YAML): package yaml links a
// whole YAML reader, which the thin client must not.
//
// Nothing here starts, schedules or stores anything, and no file is opened: text comes
// from an io.Reader, and a function of the caller reports whether an input exists. Errors
// name the file, the line and the task. A returned [Graph] does not change.
package workflow
