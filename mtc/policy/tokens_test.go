package policy

import "testing"

// TestIdleTokens: a node that uses more tokens than it holds, or has to give some back, has
// none without a use; its messages carry no negative number.
func TestIdleTokens(t *testing.T) {
	for _, c := range []struct{ held, used, over, want int32 }{{3, 1, 0, 2}, {3, 3, 0, 0}, {1, 3, 0, 0}, {3, 1, 1, 0}} {
		k := Tokens{Held: c.held, Used: c.used, Over: c.over}
		if got := k.Idle(); got != c.want {
			t.Errorf("of %d tokens, %d used and %d to give back, %d are idle, want %d", c.held, c.used, c.over, got, c.want)
		}
	}
}
