// Package message is the messages between the stores of two nodes. Each begins with an
// [Envelope], has at most [MaxMessage] bytes, and may be lost, repeated, delayed and
// reordered. The decoder refuses bytes that no encoder made.
package message
