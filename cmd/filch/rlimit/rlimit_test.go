package rlimit_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/cmd/filch/rlimit"
)

func TestMain(m *testing.M) {
	if os.Getenv("RLIMIT_TEST") != "" {
		fmt.Println(rlimit.OpenFiles)
		return
	}
	os.Exit(m.Run())
}

func TestOpenFilesIsTheLimitAtTheStart(t *testing.T) {
	cmd := exec.Command("sh", "-c", `ulimit -Sn 317 && RLIMIT_TEST=1 exec "$0"`, os.Args[0])
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "317" {
		t.Errorf("got %q, %v, want 317", got, err)
	}
}
