package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// Command is filch report.
func Command(g *cli.Global) *cobra.Command {
	path, asJSON := "", false
	c := &cobra.Command{
		Use:     "report JOB -o FILE",
		GroupID: "jobs",
		Short:   "write what a job did as a page of HTML, in one file",
		Long: `Writes what a job did as a page for a browser, which needs nothing but the file: a summary,
a timeline of the tasks on each node, the slots in use, where the time of the slots went
(the idle part by cause: nothing left to start, gangs that gathered slots, tasks that waited for
others, the limit of the job, drains and losses of nodes), a lower bound of the time (the work on
all slots, the longest task or chain of tasks), the critical path of a workflow, the slowest
tasks, and the tasks that did not end well, with their last lines. Memory and processor time
stand beside what was asked, with the bytes of output. Of a run, the page shows the ranks in place of tasks.

The page shows the last attempt of each task; the time of earlier attempts counts as idle. The
drains, losses, gathers and steals come from the nodes, which keep their last events only.

--json prints the data of the page instead, and of a workflow the graph of its tasks with
the chain of tasks that decides how long the workflow takes.`,
		Example: "  filch report 7 -o r.html\n  filch report last -o r.html\n  filch report 7 --json > r.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if (path == "") != asJSON {
				return ui.Misused(filch.Errorf(filch.Invalid, "filch report takes -o FILE or --json").WithHint("filch report %s -o report.html", args[0]))
			}
			conn, ids, err := g.Jobs(args)
			if err != nil {
				return err
			}
			defer conn.Close()
			p, err := collect(conn, ids[0], conn.Dir.Instance, asJSON)
			switch {
			case err != nil:
				return err
			case asJSON:
				return p.print()
			}
			if err := p.write(path); err != nil {
				kind := filch.Unavailable
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
					kind = filch.Invalid
				}
				return filch.Errorf(kind, "cannot write the report %s: %s", ui.Clean(path), ui.Cause(err))
			}
			what, nodes := filch.Plural(p.tasks, "task"), len(p.Nodes)
			if !cli.IsTasks(&p.Job) {
				what, nodes = filch.Plural(int(p.Job.Ranks), "rank"), len(p.Job.Nodes)
			}
			ui.Say(fmt.Sprintf("%s on %s; open %s in a browser", what, filch.Plural(nodes, "node"), ui.Clean(path)))
			return nil
		},
	}
	c.Flags().StringVarP(&path, "output", "o", "", "write to `FILE`")
	c.Flags().BoolVar(&asJSON, "json", false, "print the data of the page as JSON")
	return c
}

// print prints the data in one line: a value has no line of its own, as there may be millions.
func (p *page) print() error {
	b, err := json.Marshal(p)
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	return err
}

//go:embed page.html
var pageHTML []byte

// mark is the place of the data in the page.
const mark = ">DATA<"

// html is the page. The encoder of JSON writes <, > and & as escapes, so no name can end the
// element of the data.
func (p *page) html() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	head, tail, _ := bytes.Cut(pageHTML, []byte(mark))
	return bytes.Join([][]byte{head, []byte(">"), b, []byte("<"), tail}, nil), nil
}

// write writes the page. A file at path is replaced as a whole, and stays when the page
// cannot be written. The page has commands and output: a new file has the mode of the user's
// umask, and an old file keeps its mode.
func (p *page) write(path string) error {
	b, err := p.html()
	if err != nil {
		return err
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	old, err := os.Stat(path)
	if err == nil && !old.Mode().IsRegular() {
		return os.WriteFile(path, b, 0o666)
	}
	name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".filch-report-%d", os.Getpid()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if old != nil {
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}
