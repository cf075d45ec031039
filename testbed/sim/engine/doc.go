// Package engine is the clockwork that all simulators share: events in one
// total order, hosts whose processes start, stop, pause and are busy, a network
// that loses, delays and repeats, and dice that a seed decides.
//
// The engine does not know what its hosts run. A simulator embeds [Host] in a
// host of its own and hands each input to [Host.Input] as a function. Runs that
// draw from the dice in the same order are the same run, to the last message.
package engine
