package tasks

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/workflow"
)

func workflowCheckCommand() *cobra.Command {
	folder := ""
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "check a workflow without running it",
		Long: `Reads a workflow (- is standard input) and checks all that filch workflow run checks
before a start: the text, the edges, the input files. Prints a line with the numbers
of tasks and edges, the most tasks of a level (wide) and the number of levels (deep);
or all errors, with their lines, and exits with 2. No launcher has to run.`,
		Example: "  filch workflow check mosaic.yaml && filch workflow run mosaic.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return checkWorkflow(args[0], folder) },
	}
	c.Flags().StringVarP(&folder, "chdir", "D", "", "look for the files that no task writes in `FOLDER` (default: the folder of FILE)")
	cli.Synonyms(c.Flags())
	return c
}

func checkWorkflow(name, folder string) error {
	o, file, err := scales{1, 1}.open(name)
	if err != nil {
		return ui.Misused(err)
	}
	defer file.Close()
	g, errs, more := workflow.Check(file, o)
	if g != nil {
		f := &runFlags{folder: folder, priority: "0"}
		if f.folder == "" && name != "-" {
			f.folder = filepath.Dir(name)
		}
		errs, more = f.checkRun(g, o.Name)
	}
	for _, err := range errs {
		ui.Complain(err)
	}
	if len(errs) > 0 {
		if more > 0 {
			ui.Say(fmt.Sprintf("error: %s has %d more errors", ui.Clean(o.Name), more))
		}
		return ui.Exit(filch.ExitUsage)
	}
	m := g.Measure()
	ui.Printf("%s: %s, %s, %d wide, %d deep\n", ui.Clean(o.Name), ui.Plural(m.Tasks, "task"), ui.Plural(m.Edges, "edge"), m.Width, len(m.Levels))
	return nil
}

// checkRun checks what filch workflow run checks after reading the file: the inputs, the
// sizes of commands, and options that all tasks must share.
func (f *runFlags) checkRun(g *workflow.Graph, name string) (errs []error, more int) {
	start, readers := g.Readers()
	for i := range g.Files {
		in := &g.Files[i]
		if g.Replay || in.Writer >= 0 || start[i] == start[i+1] {
			continue
		}
		if _, err := f.inputSize(in.Path); err != nil {
			if len(errs) == workflow.ProblemsMax {
				more++
				continue
			}
			t := &g.Tasks[readers[start[i]]]
			errs = append(errs, filch.Errorf(filch.NotFound, "%s:%d: task %q: its input %q is written by no task and is not there: %s", name, t.Line, t.Name, in.Path, err.Error()).
				WithHint("create the file, or list it in the outputs of a task"))
		}
	}
	if _, _, err := f.submission(g, allTasks(g), make([]workflow.Mark, len(g.Tasks)), nil); err != nil {
		errs = append(errs, err)
	}
	return errs, more
}
