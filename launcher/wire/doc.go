// Package wire is the language of filch's links: frames, their kinds and limits, and
// the msgpack of frame bodies.
//
// There are four links: between the Nodes of two nodes, between a launcher and a
// keeper, between a client and its launcher, and the data plane (output, stdin, fences)
// across all of these links. All share one frame: a kind, a request number and a body.
// A stream puts the length before a frame; the overlay keeps the borders of messages,
// and carries a frame without a length.
//
// [Check] walks every body before a decoder does: msgpack v5.4.1 allocates the claimed
// length (5 bytes cause an allocation of 8 GiB) and recurses as deep as the input does.
// Structs travel as arrays, so their length is part of the version; nothing is ever
// decoded into an empty interface. The data plane has fixed binary headers and no
// msgpack at all.
//
// The first frame on a stream, in both directions, is [Hello]. The layouts of Hello and
// of [KindRefusal] never change, so that a launcher can refuse a peer of another
// version with a text.
package wire

// Version is the version of all links. A peer with another version is refused.
const Version = 11
