// Package message is the messages between the cores of two nodes: asks and offers of
// tasks, and reports of ends to the leader of a graph. A message has a bounded number of
// bytes, and the decoder refuses bytes that no encoder made. The network may drop,
// repeat, delay and reorder messages.
package message
