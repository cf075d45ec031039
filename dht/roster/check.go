package roster

import "fmt"

// CheckMembers panics when a node is a member twice, in any incarnation.
func (r *Roster) CheckMembers() {
	for i, m := range r.Members {
		if r.Member(m.Name) != &r.Members[i] {
			panic(fmt.Sprintf("roster %d names %s twice: %v", r.Epoch, m.Name, r.Members))
		}
	}
}
