// Package staging brings files to the node that needs them: the inputs and outputs of a
// workflow's tasks ([Files]), and the programs that filch run --bcast copies
// ([Copies]).
//
// Small inputs of one node travel together. A larger file travels in parts, one under way
// at a time. A file appears by one rename when the file is whole and the sum is right. When
// a node does not give a file, other nodes that needed the file are asked.
package staging
