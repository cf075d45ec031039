// Package wire is the language of filch's links: frames, their kinds and
// limits, and the msgpack of what they carry.
//
// There are four links: between the brains of two nodes, between a launcher
// and a keeper, between a client and its launcher, and the data plane (output,
// stdin, fences) that crosses all of them. They share one frame: a kind, a
// request number and a body. On a stream a frame has its length before it; on
// the overlay, which keeps the borders of messages, it goes as it is.
//
// Nothing is decoded before [Check] has walked it: msgpack v5.4.1 allocates
// what a length claims (5 bytes make it ask for 8 GiB) and recurses as deep as
// the input does. Structs travel as arrays, so their length is part of the
// version; nothing is ever decoded into an empty interface. The data plane has
// fixed binary headers and no msgpack at all.
//
// The first frame on a stream, in both directions, is [Hello]. Its layout and
// that of [KindRefusal] never change, so a peer of another version can be told
// so in words.
package wire

// Version of all links. A peer with another one is refused.
const Version = 2
