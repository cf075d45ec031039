// Package workflow reads what people submit as many tasks: workflow files and
// task lists, into one neutral form.
//
// [Load] reads a workflow file (WfFormat, Pegasus DAX, or filch's own YAML or
// JSON form) into a [Graph]: tasks, files and edges, checked and bounded, with
// no cycle and one writer for every file. [Bag] is a list of tasks without
// edges that is never unfolded: an array, the combinations of lists, or lines,
// each of which becomes a [Command] when it is asked for by its index. [Lines]
// and [Entries] read lists one task at a time, for those that are sent on in
// pieces.
//
// Nothing here starts, schedules or stores anything, and no file is opened:
// text comes from an io.Reader, and whether an input exists is asked through a
// function. Errors name the file, the line and the task. A [Graph] does not
// change once it was returned.
package workflow
