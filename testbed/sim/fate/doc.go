// Package fate is what the simulators share: dice that a seed decides, a queue
// of events in one total order, and a network that loses, delays and repeats.
//
// Nothing in it knows what the events and messages are. Whoever draws from the
// dice in the same order gets the same run.
package fate
