// Package local has the state of a node that all parts of the node share: [Self] with the
// ledger and the list of members, and [Turn], the input being handled.
package local
