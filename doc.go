// Package filch is the dictionary of the project: the identifiers, states and
// error kinds that every room uses, and nothing that acts.
package filch
