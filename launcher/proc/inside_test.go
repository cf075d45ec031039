package proc

// These tests look inside: the functions are pure, and their callers need a
// machine of the right kind to reach all of them.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

func TestGPUEnv(t *testing.T) {
	for _, c := range []struct {
		gpus []string
		i, n int
		want string
	}{
		{nil, 0, 2, ""},
		{[]string{"nvidia:0", "nvidia:1"}, 1, 2, "FILCH_GPUS=nvidia:1 CUDA_VISIBLE_DEVICES=1"},
		{[]string{"amd3", "amd5"}, 0, 1, "FILCH_GPUS=amd3,amd5 ROCR_VISIBLE_DEVICES=3,5"},
		{[]string{"0"}, 2, 3, "FILCH_GPUS=0 CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=0"},
		{[]string{"nvidia:GPU-8a3f", "nvidia:MIG-77-1"}, 1, 2, "FILCH_GPUS=nvidia:MIG-77-1 CUDA_VISIBLE_DEVICES=MIG-77-1"},
		{[]string{"intel:0.1"}, 0, 1, "FILCH_GPUS=intel:0.1 ZE_AFFINITY_MASK=0.1"},
		{[]string{"intel:7"}, 0, 1, "FILCH_GPUS=intel:7 ZE_AFFINITY_MASK=7"},
	} {
		if got := strings.Join(GPUEnv(c.gpus, c.i, c.n), " "); got != c.want {
			t.Errorf("%v, rank %d of %d: got %q, want %q", c.gpus, c.i, c.n, got, c.want)
		}
	}
}

func TestScrub(t *testing.T) {
	env := []string{"A=1", "SLURM_JOB_ID=1", "PMI_FD=3", "PMIX_RANK=1", "bad", "=x", "NUL=\x00", "FILCH_LOCAL=/x", "FILCH_RANK=1", "MPI_LOCALRANKID=0"}
	want := []string{"A=1", "SLURM_JOB_ID=1", "FILCH_LOCAL=/x"} // SLURM_JOB_ID was exported by name
	if got := Scrub(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShortPath(t *testing.T) {
	var deep strings.Builder
	deep.WriteString(t.TempDir())
	for range 12 {
		deep.WriteString("/a-rather-long-folder")
	}
	if err := os.MkdirAll(deep.String(), 0o700); err != nil {
		t.Fatal(err)
	}
	short, done, err := ShortPath(deep.String() + "/k1.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if len(short) > 100 {
		t.Errorf("%d bytes: %s", len(short), short)
	}
	if err := os.WriteFile(deep.String()+"/k1.sock", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(short); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestParentOf(t *testing.T) {
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Errorf("got %d, want %d", got, os.Getppid())
	}
	if got := parentOf(1 << 30); got != 0 {
		t.Errorf("a process that is not has parent %d", got)
	}
	if got, want := fmt.Sprint(DescendantsByParent(os.Getpid())), fmt.Sprint(Descendants(os.Getpid())); got != want {
		t.Errorf("by parent %s, by children %s", got, want)
	}
}

// A folder of PATH that this process cannot look into hides nothing that a shell
// would find, so the program is missing, not forbidden.
func TestFindProgramSkipsFoldersThatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	loop, plain := filepath.Join(dir, "loop"), filepath.Join(dir, "plain")
	if err := errors.Join(os.Symlink(loop, loop), os.MkdirAll(filepath.Join(dir, "tool"), 0o755), os.WriteFile(plain, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + loop + ":" + dir}
	for name, want := range map[string]launcher.CauseKind{
		"tool": launcher.CauseNotFound, "absent": launcher.CauseNotFound, "plain": launcher.CauseNotExec,
	} {
		if _, f := FindProgram(name, dir, env, "n1"); f == nil || f.Cause != want {
			t.Errorf("%s: got %+v, want cause %v", name, f, want)
		}
	}
}
