package policy

import "time"

// Bounds of the gangs of a node that gather side by side. More would hold slots against
// each other, and would be out of reach of thieves with free slots. Gangs that fit on a
// node are better stolen by a node with free slots: one of them gathers, in case no node
// alone has enough.
const (
	GathersMax    = 4
	gathersFitMax = 1
)

// GangRest is how long the gangs of a dead owner wait at most for their ranks, which may run on
// nodes that live: as long as the lease of ranks. The wait ends earlier when the caller of the
// core knows that the ranks are gone.
const GangRest = 10 * time.Second

// GatherAfter is how long a gang that fits on its node waits for room there before the gang
// gathers slots of several nodes: a gang of the node, or a thief, may free or have the room
// meanwhile, and neither costs a message.
const GatherAfter = 200 * time.Millisecond

// MayGather reports whether a node whose gangs gather already may have another gang gather,
// which fits on the node alone or does not.
func MayGather(gathers int32, fits bool) bool {
	if fits {
		return gathers < gathersFitMax
	}
	return gathers < GathersMax
}
