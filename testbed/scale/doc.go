// Package scale holds the tests that need many real launchers on one machine,
// or much output: what a gather says on the wire, how many connections a
// launcher keeps, and how much memory a flood costs.
//
// The sizes are small unless FILCH_PROOF is set.
package scale
