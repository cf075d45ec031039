package filch

import "testing"

// TestRoles: each role has a name that can be read, and takes its kind of work.
func TestRoles(t *testing.T) {
	for r, want := range map[Role][2]bool{ForAll: {true, true}, ForTasks: {false, true}, ForGangs: {true, false}, 9: {true, true}} {
		if got := [2]bool{r.Takes(true), r.Takes(false)}; got != want {
			t.Errorf("%s takes gangs, tasks: %v, want %v", r, got, want)
		}
		if read, err := ReadRole(r.String()); r != 9 && (err != nil || read != r) {
			t.Errorf("%s: read as %s, %v", r, read, err)
		}
	}
	if _, err := ReadRole("mpi"); err == nil {
		t.Error("mpi is a role")
	}
}
