// Package peers holds a daemon's knowledge of other nodes: the list of nodes with their
// cards ([Directory]), and the queries put to other nodes with the answers
// ([Questions]).
package peers
