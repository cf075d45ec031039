// Package staging brings files to the node that needs them: the inputs and outputs of a
// workflow's tasks ([Files]), and the programs that filch run --bcast copies
// ([Copies]).
//
// A file travels in parts, one under way at a time, and appears by one rename when the
// file is whole and the sum is right.
package staging
