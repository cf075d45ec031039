package policy

import "github.com/filch-hpc/filch"

// urgeAsks is how many times sqrt(N) nodes a node asks in vain for tasks of a better class
// before the node takes the news of these tasks for old.
const urgeAsks = 4

// Urge is a node's knowledge that tasks of a class wait on other nodes. Tasks of the node
// of a worse class stand back until the node has asked for the others.
type Urge struct {
	on    bool
	class int32 // the best class that the node heard of; lower goes first
	from  filch.NodeName
	vain  int // nodes asked in vain since the news
}

// Heard takes in news of tasks of a class at a node.
func (u *Urge) Heard(class int32, from filch.NodeName) {
	if u.on && (class > u.class || class == u.class && u.vain == 0) {
		return
	}
	*u = Urge{on: !mutantHomely, class: class, from: from}
}

// StandsBack reports whether tasks of a class are worse than tasks that wait elsewhere.
func (u *Urge) StandsBack(class int32) bool { return u.on && u.class < class }

// From is the node with the tasks that the node heard of.
func (u *Urge) From() filch.NodeName { return u.from }

// Failed notes that the node asked some of n other nodes in vain.
func (u *Urge) Failed(asked, n int) {
	if u.vain += asked; u.vain >= urgeAsks*filch.Root(n+1) {
		*u = Urge{}
	}
}

// Succeeded notes that the node received work.
func (u *Urge) Succeeded() { u.vain = 0 }
