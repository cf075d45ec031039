package proc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// Of a run of two programs the first is linked with Open MPI, and the keeper serves PMI, which the
// second uses: the ranks of the first run alone, and the keeper says so.
func TestProgramThatRanAloneBesideAnotherIsSaid(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/main.c", []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/libmpi.so.40", "-Wl,-soname,libmpi.so.40", "-xc", "/dev/null"},
		{"-o", dir + "/alone", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", dir + "/main.c", dir + "/libmpi.so.40"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s", err, out)
		}
	}
	speaks := []string{"/bin/bash", "-c", `echo "cmd=init pmi_version=1 pmi_subversion=1" >&$PMI_FD; read -u $PMI_FD line; echo "cmd=finalize" >&$PMI_FD; read -u $PMI_FD line`}
	alone := []string{dir + "/alone"}
	for _, c := range []struct {
		first, second []string
		want          string
	}{
		{alone, speaks, "rank 0 uses Open MPI, which needs PMIx, and none of the 1 ranks on n3 asked for the others before its end: MPI_Init failed, or each ran alone; another program of the run has the library that fits"},
		{speaks, alone, "rank 1 uses Open MPI, which needs PMIx, and none of the 1 ranks on n3 asked for the others before its end: MPI_Init failed, or each ran alone; another program of the run has the library that fits"},
		{speaks, speaks, ""},
	} {
		b := newBoss(t)
		o := newOrder(2)
		o.MPI = "pmi1"
		o.Programs = []launcher.Program{{Argv: c.first, Ranks: []launcher.Span{{First: 0, Count: 1}}}, {Argv: c.second, Ranks: []launcher.Span{{First: 1, Count: 1}}}}
		b.run(o)
		if s := b.untilDone(); strings.Join(s.warns, "; ") != c.want || len(s.ends) != 2 {
			t.Errorf("%d ends, warned %q, want %q", len(s.ends), s.warns, c.want)
		}
	}
}
