// Package dataplane moves the bytes of runs between keepers and clients: output, stdin
// and the frames of fences (PMI).
//
// These bytes do not pass the daemon's loop: the goroutine that reads a link writes
// each frame to the next link, by a table of routes that the loop maintains ([Routes]).
// No goroutine waits for a slow reader: links queue up to the windows of the keepers,
// and offsets in streams are absolute, so that a receiver asks again for dropped bytes.
package dataplane
