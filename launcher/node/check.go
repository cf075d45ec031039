package node

// Check panics where an invariant is broken. Tests call it after every step.
func (n *Node) Check() {
	n.self.Ledger.Check()
	n.Records.Check()
	n.Origin.Check()
	n.Ranks.Check()
	n.Tasks.Gangs.Check()
	if n.self.HasMail() {
		panic("launcher: an input ended with messages to itself unhandled")
	}
}
