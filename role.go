package filch

import "strconv"

// Role says for what work a node is.
type Role uint8

// The roles. The zero Role is for any work.
const (
	ForAll   Role = iota
	ForTasks      // tasks of one process: the node lends nothing to gangs
	ForGangs      // gangs: the node starts no other task
)

var roleNames = [...]string{"all", "tasks", "gangs"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "role " + strconv.Itoa(int(r))
}

// ReadRole reads the name of a role.
func ReadRole(s string) (Role, *Error) {
	for r, name := range roleNames {
		if s == name {
			return Role(r), nil
		}
	}
	return ForAll, Errorf(Invalid, "%.40q is no role of a node", s).WithHint("the roles are tasks, gangs and all")
}

// Takes reports whether a node with the role takes gangs, or tasks of one process. A node of
// an unknown role takes both.
func (r Role) Takes(gang bool) bool { return !(r == ForTasks && gang || r == ForGangs && !gang) }

// MarshalText is the name of the role.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a role.
func (r *Role) UnmarshalText(b []byte) error {
	v, err := ReadRole(string(b))
	if err != nil {
		return err
	}
	*r = v
	return nil
}
