package cli

import (
	"os"
	"os/user"
	"testing"
)

// A person without USER, as in a service or a container, has the name of the user's account.
func TestPersonHasANameWithoutUSER(t *testing.T) {
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"": account.Username, "ann": "ann"} {
		t.Setenv("USER", env)
		if got := Person(); got != want+" on "+host {
			t.Errorf("USER=%s: the person is %q, want %q", env, got, want+" on "+host)
		}
	}
}
