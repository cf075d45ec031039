// Package replica decides about copies of tasks that run for far longer than other tasks of
// their kind (ADAGE, III): when a task is slow, how many copies a task may have, and how far
// each copy is. A node keeps two lists: the given copies and the taken copies. The package starts and ends nothing.
package replica
