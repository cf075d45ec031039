package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
before a start: the text, the edges, the input files; and programs with a relative path,
which must be inputs of their task. Prints a line with the numbers of tasks and edges, the
most tasks of a level (wide) and the number of levels (deep); or all errors, with their
lines, and exits with 2. No launcher has to run.`,
		Example: "  filch workflow check mosaic.yaml && filch workflow run mosaic.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return checkWorkflow(args[0], folder) },
	}
	c.Flags().StringVarP(&folder, "chdir", "D", "", "look for the files that no task writes in `FOLDER` (default: the folder of FILE)")
	cli.Synonyms(c.Flags())
	return c
}

func checkWorkflow(name, folder string) error {
	if folder != "" {
		if err := isFolder(folder); err != nil {
			return err
		}
	}
	o, file, err := scales{1, 1}.open(name)
	if err != nil {
		return ui.Misused(err)
	}
	defer file.Close()
	g, errs, more := workflow.Check(file, o)
	add := func(err error) {
		if len(errs) < workflow.ProblemsMax {
			errs = append(errs, err)
		} else {
			more++
		}
	}
	warned := 0
	if g != nil {
		f := &runFlags{folder: folder, priority: "0"}
		if f.folder == "" && name != "-" {
			f.folder = filepath.Dir(name)
		}
		whole := len(errs) == 0
		f.checkInputs(g, o.Name, add)
		if whole {
			if _, _, err := f.submission(g, allTasks(g), make([]workflow.Mark, len(g.Tasks)), nil); err != nil {
				add(err)
			}
		}
		f.checkPrograms(g, o.Name, func(err *filch.Error, fatal bool) {
			switch {
			case fatal:
				add(err)
			case warned < workflow.ProblemsMax:
				warned++
				ui.Warn(err.Error())
				ui.Hint(err.Hint)
			}
		})
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
	ui.Printf("%s: %s, %s, %d wide, %d deep\n", ui.Clean(o.Name), filch.Plural(m.Tasks, "task"), filch.Plural(m.Edges, "edge"), m.Width, len(m.Levels))
	return nil
}

// checkInputs finds the inputs that no task writes and that are not there.
func (f *runFlags) checkInputs(g *workflow.Graph, name string, report func(err error)) {
	start, readers := g.Readers()
	for i := range g.Files {
		in := &g.Files[i]
		if g.Replay || in.Writer >= 0 || start[i] == start[i+1] {
			continue
		}
		if _, err := f.inputSize(in.Path); err != nil {
			t := &g.Tasks[readers[start[i]]]
			report(filch.Errorf(filch.Invalid, "%s:%d: task %q: its input %q is written by no task and is not there: %s", name, t.Line, t.Name, in.Path, ui.Cause(err)).
				WithHint("create the file, or list it in the outputs of a task"))
		}
	}
}

// checkPrograms finds programs with a relative path that no node can find: a task runs in
// a folder of its own, which has the inputs of the task. A program that is in the folder of
// the workflow, and no input, is found with --in-place only: that is no fatal problem.
func (f *runFlags) checkPrograms(g *workflow.Graph, name string, report func(err *filch.Error, fatal bool)) {
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if g.Replay || t.Run.Cwd != "" {
			continue
		}
		for k, program := range relativePrograms(t.Run.Argv) {
			path := filepath.Clean(program)
			if program == "" || slices.ContainsFunc(t.Inputs, func(k int32) bool { return g.Files[k].Path == path }) {
				continue
			}
			about := fmt.Sprintf("%s:%d: task %q: its program %q is not among its inputs", name, t.Line, t.Name, program)
			_, err := f.inputSize(path)
			switch {
			case err == nil:
				report(filch.Errorf(filch.NotFound, "%s: only filch workflow run --in-place finds it", about).WithHint("inputs: [%s]", path), false)
			case k > 0:
				report(filch.Errorf(filch.NotFound, "%s, and is not in the folder of the workflow: only a command before it can make it", about).
					WithHint("list the program in the inputs of the task, if no command makes it"), false)
			default:
				report(filch.Errorf(filch.NotFound, "%s, and is not in the folder of the workflow", about).
					WithHint("create the program and list it in the inputs of the task, or name a program of the nodes by its absolute path"), true)
			}
		}
	}
}

// relativePrograms are the programs of a command that have a relative path with a slash, and ""
// for the others: PATH and the absolute paths of the nodes are not known here. A line for the
// shell has a program for each of its commands.
func relativePrograms(argv []string) []string {
	programs := slices.Clone(argv[:min(len(argv), 1)])
	if len(argv) == 3 && slices.Equal(argv[:2], workflow.ShellArgv("exit;")[:2]) {
		programs = workflow.ShellCommands(argv[2])
	}
	for i, p := range programs {
		if !strings.Contains(p, "/") || filepath.IsAbs(p) || slices.Contains(programs[:i], p) {
			programs[i] = ""
		}
	}
	return programs
}
