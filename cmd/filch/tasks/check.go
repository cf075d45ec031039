package tasks

import (
	"fmt"
	"os/exec"
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
		found := &undeclared{name: o.Name, add: add}
		f.checkPrograms(g, found)
		found.warn()
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

// tasksShown bounds the tasks that a warning names.
const tasksShown = 3

// warning is a warning about a file that tasks use, and that is no input of theirs.
type warning struct {
	line            int // of the first of the tasks
	tasks           []string
	its, more, hint string
}

// undeclared are the warnings about a workflow file: many tasks with the same fault share one.
type undeclared struct {
	name string
	add  func(err error)
	all  []*warning
}

// find adds a task to the warning with the same text.
func (s *undeclared) find(t *workflow.Task, its, more, hint string) {
	at := slices.IndexFunc(s.all, func(w *warning) bool { return w.its == its && w.more == more })
	if at < 0 {
		at = len(s.all)
		s.all = append(s.all, &warning{line: t.Line, its: its, more: more, hint: hint})
	}
	if names := &s.all[at].tasks; !slices.Contains(*names, t.Name) {
		*names = append(*names, t.Name)
	}
}

// warn prints the warnings.
func (s *undeclared) warn() {
	for _, w := range s.all[:min(len(s.all), workflow.ProblemsMax)] {
		who, whose := fmt.Sprintf("task %q", w.tasks[0]), "its"
		if n := len(w.tasks); n > 1 {
			who, whose = fmt.Sprintf("%d tasks (%s)", n, ui.Few(w.tasks, tasksShown)), "their"
		}
		ui.Warn(fmt.Sprintf("%s:%d: %s: %s %s %s", s.name, w.line, who, whose, w.its, strings.ReplaceAll(w.more, "its", whose)))
		ui.Hint(w.hint)
	}
}

// checkPrograms finds programs with a relative path that no node can find: a task runs in
// a folder of its own, which has the inputs of the task. A program that is in the folder of
// the workflow, and no input, is found with --in-place only: that is no fatal problem. So it is
// with other files that the command names.
func (f *runFlags) checkPrograms(g *workflow.Graph, found *undeclared) {
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if g.Replay || t.Run.Cwd != "" {
			continue
		}
		has := func(list []int32, path string) bool {
			return slices.ContainsFunc(list, func(k int32) bool { return g.Files[k].Path == path })
		}
		const where = "is not among its inputs"
		programs, words := commandWords(t.Run.Argv)
		for k, program := range programs {
			path := filepath.Clean(program)
			_, err := f.inputSize(path)
			_, onPath := exec.LookPath(program)
			its := fmt.Sprintf("program %q", program)
			switch {
			case program == "" || filepath.IsAbs(program):
			case !strings.Contains(program, "/"):
				if err == nil && onPath != nil {
					found.find(t, its, "is in the folder of the workflow, and a node looks for it in PATH alone", fmt.Sprintf("write ./%s, and inputs: [%[1]s]", path))
				}
			case has(t.Inputs, path) || slices.Contains(programs[:k], program):
			case err == nil:
				found.find(t, its, where+": only filch workflow run --in-place finds it", fmt.Sprintf("inputs: [%s]", path))
			case k > 0:
				found.find(t, its, where+", and is not in the folder of the workflow: only a command before it can make it",
					"list the program in the inputs of the task, if no command makes it")
			default:
				found.add(filch.Errorf(filch.NotFound, "%s:%d: task %q: its %s %s, and is not in the folder of the workflow", found.name, t.Line, t.Name, its, where).
					WithHint("create the program and list it in the inputs of the task, or name a program of the nodes by its absolute path"))
			}
		}
		for _, word := range words {
			path := filepath.Clean(word)
			if _, err := f.inputSize(path); err == nil && !filepath.IsAbs(word) && !has(t.Inputs, path) && !has(t.Outputs, path) {
				found.find(t, fmt.Sprintf("file %q", path), where+": only filch workflow run --in-place finds it", fmt.Sprintf("inputs: [%s]", path))
			}
		}
	}
}

// commandWords are the programs of a command, and its other words. A line for the shell has a
// program for each of its commands.
func commandWords(argv []string) (programs, words []string) {
	if len(argv) == 3 && slices.Equal(argv[:2], workflow.ShellArgv("exit;")[:2]) {
		return workflow.ShellCommands(argv[2])
	}
	return argv[:min(len(argv), 1)], argv[min(len(argv), 1):]
}
