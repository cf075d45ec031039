// Package stats prints how much the nodes of an instance work: busy slots, queues, steals,
// messages. Package stats changes nothing.
package stats
