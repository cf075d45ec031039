// Package origin is the node's part for the jobs of its own clients: [Origin] numbers the
// jobs, gathers slots for them, launches them, and decides how they end.
//
// An [Origin] consists of smaller parts, each with one concern: the gather queue, the
// attempts, the lost ranks, the parents of steps, the endings, the knot. Origin and ranks
// of other nodes exchange messages of package launcher.
package origin
