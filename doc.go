// Package filch is the dictionary of the project: the identifiers, states, amounts and
// error kinds used by every package, the list of members, a seeded generator and a heap.
// Nothing here acts.
package filch
