// Package filch is the dictionary of the project: the identifiers, states and error
// kinds used by every package, and nothing that acts.
package filch
