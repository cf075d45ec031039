// Package ties tells which holders of slots are a knot: tasks and runs that wait for runs of
// their own, which in turn can get no slots but the slots of these holders.
//
// The node that looks for a knot collects the [launcher.Tie] of each holder, and calls [Knot],
// then [Youngest] for the runs to refuse. The functions know ties and members alone: they
// ask nobody, and refuse no run.
package ties
