// Package query answers the queries of local clients and of other nodes: ps, info,
// explain, wait, logs and the other verbs of package wire.
//
// A local query may be about other nodes; the server asks them and joins the answers. A
// query of another node is about this node alone.
package query
