// Package members keeps the list of all nodes of an instance: live, silent, dead
// and left.
//
// [List] is the list of all nodes of an instance as one node sees them: a state
// machine without I/O. Inputs are stamped with now, monotonic since the launcher
// began. [List.Deadline] says when the list must be called again. The list appends
// its actions to an [Out]. The caller carries out the actions: package overlay's
// Mesh in real life, a simulated network in tests. Messages may be lost, repeated,
// delayed and reordered.
//
// List has parts, each with its own state: table (the entries and their sums), ring
// (the members to watch and to send news to), detector (the failure detector), news
// (entries to send on), antiEntropy (differences between two lists) and joining (the
// request for the list). List alone merges entries: the detector makes claims.
//
// Each node sends a beat to three others every [BeatEvery], whatever the number of
// members. A node silent for [SuspectAfter] is suspected. After [DeadAfter] the
// node is declared dead, if a fresh connection to the node failed and another
// member also finds the node silent. Time in which the judging node itself did not
// run is not counted as silence. News travel along fingers of the ring of hashed
// names and reach n nodes in about log2(n) steps. Sums of the lists travel with the
// beats, so lost news are found.
//
// A node is [Gone] at once when the node's host refuses connections, the open
// connections were closed, and another member finds the same. If the node lives,
// the node refutes the claim.
//
// An incarnation declared dead is over. The node learns of the death as soon as the
// node sends to any member. The list then emits [SelfDead] to the launcher, and
// [List.Rejoin] brings the node back with a new incarnation. After a network
// partition heals, each side has declared the other dead. Then the smaller side (of
// two equal sides, the side without the least name) rejoins, and the deaths
// declared by the smaller side are forgotten. So one node with a bad link does not
// take the others down.
//
// Two members have no witness: a failed redial alone decides there. In a larger
// instance, a node without a witness waits for [AloneAfter]: the node itself may be
// cut off, so the others decide first.
package members
