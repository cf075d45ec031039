// Package engine drives all simulators: events in one total order; hosts with
// processes that start, stop, pause and are busy; a network that loses, delays and
// repeats messages; dice drawn from a seed.
//
// The engine does not know the programs of its hosts. A simulator embeds [Host] in a
// host of its own and passes each input to [Host.Input] as a function. Two runs that
// draw from the dice in the same order are equal to the last message.
package engine
