package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sample has all that a page can show.
func sample() *cobra.Command {
	root := &cobra.Command{Use: "filch", Short: "start programs", Long: "Starts programs.\nNow."}
	run := &cobra.Command{
		Use: "run [OPTIONS] COMMAND", Short: "run it.", Run: func(*cobra.Command, []string) {},
		Long:    "First line\n.hidden by roff\n\n  a  table\n  of 'two' lines\n\nLast \\n word.",
		Example: "  filch run -n 4\n    deeper",
	}
	run.Flags().Int32P("ntasks", "n", 0, "start `N` ranks")
	run.Flags().Bool("quiet", false, "say nothing")
	run.Flags().String("keep", "all", "keep `WHICH`")
	run.Flags().String("secret", "", "not shown")
	_ = run.Flags().MarkHidden("secret")
	hidden := &cobra.Command{Use: "keeper", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(run, hidden)
	return root
}

func TestPageAsText(t *testing.T) {
	pages := pagesOf(sample())
	var names []string
	for _, p := range pages {
		names = append(names, p.title())
	}
	if got, want := strings.Join(names, " "), "filch(1) filch-run(1) filch-environment(7)"; got != want {
		t.Fatalf("got the pages %s, want %s", got, want)
	}
	const want = `FILCH-RUN(1)                                                      FILCH-RUN(1)

NAME
       filch-run - run it

SYNOPSIS
       filch run [OPTIONS] COMMAND

DESCRIPTION
       First line .hidden by roff

         a  table
         of 'two' lines

       Last \n word.

OPTIONS
       --keep WHICH
              keep WHICH (default all)

       -n, --ntasks N
              start N ranks

       --quiet
              say nothing

EXAMPLES
       filch run -n 4
         deeper

SEE ALSO
       filch(1), filch-environment(7)
`
	if got := pages[1].asText(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// man shows the words of the page as text does, and complains about no line.
func TestManReadsRoff(t *testing.T) {
	man, err := exec.LookPath("man")
	if err != nil {
		t.Fatal("man is missing: scripts/install-deps test")
	}
	dir := t.TempDir()
	for _, p := range pagesOf(sample()) {
		path := filepath.Join(dir, p.File())
		if err := os.WriteFile(path, []byte(p.asRoff()), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(man, "--warnings=w", "-P", "cat", path)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "MANROFFOPT=-c", "GROFF_NO_SGR=1")
		var told strings.Builder
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil || told.Len() > 0 {
			t.Errorf("man %s: %v %s", p.File(), err, told.String())
		}
		got := strings.Fields(strings.NewReplacer("\b", "").Replace(string(out)))
		want := strings.Fields(p.asText())
		got, want = got[3:len(got)-3], want[2:] // man has a head and a foot of its own
		if g, w := strings.Join(got, " "), strings.Join(want, " "); !strings.Contains(g, w) {
			t.Errorf("man shows %s as\n%s\nwant\n%s", p.File(), g, w)
		}
	}
}

func TestFindPage(t *testing.T) {
	pages := pagesOf(sample())
	for words, want := range map[string]string{
		"run": "filch-run", "filch-run": "filch-run", "filch run": "filch-run", "filch": "filch",
		"environment": environmentName, "filch-run(1)": "filch-run",
	} {
		if p, err := find(pages, strings.Fields(words)); err != nil || p.Name != want {
			t.Errorf("find(%s) = %v, %v, want %s", words, p, err, want)
		}
	}
	if p, err := find(pages, []string{"keeper"}); err == nil {
		t.Errorf("a hidden command has the page %s", p.Name)
	}
}
