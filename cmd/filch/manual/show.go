package manual

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// Command is filch man.
func Command() *cobra.Command {
	dir := ""
	c := &cobra.Command{
		Use:     "man [COMMAND]",
		GroupID: "nodes",
		Short:   "show the manual, or install its pages for man",
		Long: `Shows the page of a command in man or, where man is missing, in a pager (PAGER, less
or more). Into a pipe or a file, the page is printed as text. Without a COMMAND,
lists the pages. The pages are in this binary.

With --install, writes the pages to the folders man1 and man7 in DIR, for man:
DIR is /usr/local/share/man or ~/.local/share/man, for example.`,
		Example: `  filch man
  filch man run
  filch man workflow run
  filch man environment
  filch man --install ~/.local/share/man`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := pagesOf(cmd.Root())
			switch {
			case cmd.Flags().Changed("install") && len(args) > 0:
				return ui.Misused(filch.Errorf(filch.Invalid, "--install writes all pages, and takes no COMMAND").WithHint("filch man --install DIR"))
			case cmd.Flags().Changed("install"):
				return install(pages, dir)
			case len(args) == 0:
				return list(pages)
			}
			p, err := find(pages, args)
			if err != nil {
				return err
			}
			return show(p)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			prefix := strings.Join(append([]string{"filch"}, args...), "-") + "-"
			var words []cobra.Completion
			for _, p := range pagesOf(cmd.Root()) {
				if word, below := strings.CutPrefix(p.Name, prefix); below && !strings.Contains(word, "-") {
					words = append(words, cobra.CompletionWithDesc(word, p.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&dir, "install", "", "write the pages to man1 and man7 in `DIR`")
	_ = c.MarkFlagDirname("install")
	return c
}

func list(pages []page) error {
	t := &ui.Table{Head: []string{"PAGE", "ABOUT"}}
	for i := range pages {
		t.Add(pages[i].title(), pages[i].Short)
	}
	return t.Print()
}

// find is the page of words: run, filch-run, workflow run, environment.
func find(pages []page, words []string) (*page, error) {
	name := strings.Join(words, "-")
	for i := range pages {
		if p := &pages[i]; p.Name == name || p.Name == "filch-"+name || p.title() == name {
			return p, nil
		}
	}
	return nil, ui.Misused(filch.Errorf(filch.NotFound, "there is no manual page for %s", strconv.Quote(strings.Join(words, " "))).
		WithHint("filch man lists the pages"))
}

// show shows a page on a terminal by man or a pager, and prints the page else.
func show(p *page) error {
	if !ui.IsTerminal(os.Stdout) {
		ui.Printf("%s", p.asText())
		return nil
	}
	if shown, err := byMan(p); shown || err != nil {
		return err
	}
	for _, pager := range [][]string{strings.Fields(os.Getenv("PAGER")), {"less"}, {"more"}} {
		if len(pager) == 0 {
			continue
		}
		cmd := exec.Command(pager[0], pager[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(p.asText()), os.Stdout, os.Stderr
		if err := cmd.Run(); !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			return nil // the reader may leave the pager early
		}
	}
	ui.Printf("%s", p.asText())
	return nil
}

// byMan reports whether man has shown the page. Some mans read no file.
func byMan(p *page) (shown bool, err error) {
	man, err := exec.LookPath("man")
	if err != nil {
		return false, nil
	}
	dir, err := os.MkdirTemp("", "filch-man-")
	if err != nil {
		return false, filch.Errorf(filch.Invalid, "cannot write the page for man: %s", ui.Cause(err)).WithHint("filch man %s | cat", p.Name)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, p.File())
	if err := os.WriteFile(path, []byte(p.asRoff()), 0o600); err != nil {
		return false, filch.Errorf(filch.Invalid, "cannot write the page for man: %s", ui.Cause(err)).WithHint("filch man %s | cat", p.Name)
	}
	cmd := exec.Command(man, path) // a path with a slash is a file for every man
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	return cmd.Run() == nil, nil
}

// install writes the pages below dir, which install makes if only dir itself is
// missing.
func install(pages []page, dir string) error {
	if dir == "" {
		return ui.Misused(filch.Errorf(filch.Invalid, "--install is empty").WithHint("a shell variable in the command may be unset"))
	}
	if _, err := os.Stat(filepath.Dir(filepath.Clean(dir))); err != nil {
		return filch.Errorf(filch.Invalid, "cannot install the manual in %s: %s", dir, ui.Cause(err)).WithHint("mkdir -p %s", dir)
	}
	for i := range pages {
		p := &pages[i]
		path := filepath.Join(dir, "man"+strconv.Itoa(p.Number), p.File())
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(p.asRoff()), 0o644)
		}
		if err != nil {
			return filch.Errorf(filch.Invalid, "cannot write page %d of %d, %s: %s", i+1, len(pages), path, ui.Cause(err))
		}
	}
	ui.Printf("%s in %s\n", filch.Plural(len(pages), "manual page"), ui.Clean(dir))
	return nil
}
