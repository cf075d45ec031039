package staging

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// A node keeps archives by their last use, within bounds of time and space; never without an
// archive that a gang needs now. Other files are left alone.
func TestKeptArchivesGoByTheirLastUse(t *testing.T) {
	const day = 24 * time.Hour
	file := func(c string) string { return strings.Repeat(c, launcher.CopyFileLen) }
	for name, x := range map[string]struct {
		more int64
		used string
		want string
	}{
		"old":          {0, "", "bcd"},
		"old-and-used": {0, "a", "abcd"},
		"no-room":      {6 << 30, "", "cd"},
		"used":         {6 << 30, "b", "bd"},
		"too-large":    {keptBytes + 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cs := &Copies{dir: t.TempDir(), users: map[string]int{}}
			for c, age := range map[string]time.Duration{"a": keptFor + day, "b": 3 * day, "c": 2 * day, "d": day} {
				at := cs.keptPath(file(c))
				when := time.Now().Add(-age)
				if err := os.WriteFile(at, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(at, 4<<30); err != nil { // takes no space
					t.Fatal(err)
				}
				if err := os.Chtimes(at, when, when); err != nil {
					t.Fatal(err)
				}
			}
			other := filepath.Join(cs.dir, "kept.part")
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if x.used != "" {
				cs.users[file(x.used)]++
			}
			cs.trimKept(x.more)
			var left []string
			for _, c := range []string{"a", "b", "c", "d"} {
				if _, err := os.Stat(cs.keptPath(file(c))); err == nil {
					left = append(left, c)
				}
			}
			if got := strings.Join(left, ""); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
			if _, err := os.Stat(other); err != nil {
				t.Error("another file is gone")
			}
		})
	}
	if names := []string{"kept.x.tar", "kept." + file("a") + ".part", file("a") + ".tar"}; slices.ContainsFunc(names, isKept) {
		t.Error("a file is taken for an archive that nodes keep")
	}
}
