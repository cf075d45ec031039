package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// captureStderr puts standard error into a file until the end of the test, and returns what reads the
// file. A pipe would wait outside of the bubble of a synctest.
func captureStderr(t *testing.T) (said func() string) {
	path := filepath.Join(t.TempDir(), "said")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stderr
	os.Stderr = f
	t.Cleanup(func() { os.Stderr = old })
	return func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}
