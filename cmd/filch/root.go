package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// execute runs any command but the two fast ones.
func execute(args []string) int {
	root := newRootFor(args)
	args, err := leadingNode(root, args)
	root.SetArgs(args)
	if cmd, rest, _ := root.Find(args); err != nil {
	} else if cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !strings.HasPrefix(rest[0], "__") {
		// Cobra would read the options first. A name with __ is of cobra's completion.
		err = ui.Misused(unknownCommand(root, rest[0]))
	} else {
		err = root.Execute()
	}
	if err == nil {
		err = ui.Untold
	}
	var code ui.ExitStatus
	var told *filch.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.Code
	case errors.As(err, new(ui.Misuse)):
		return ui.Usage(oneLine(err))
	case errors.As(err, &told): // a wrong file, or a wrong name, is a wrong command line
		return ui.Refuse(err)
	case strings.HasPrefix(err.Error(), "unknown command"):
		return ui.Usage(oneLine(err))
	}
	return ui.Fail(err)
}

// leadingNode takes --node in front of the command off the command line, and sets the option
// of root: behind the command, filch tasks has a --node of its own.
func leadingNode(root *cobra.Command, args []string) (rest []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, glued := strings.Cut(args[i], "=")
		if name != "--node" && name != "--instance" {
			return append(rest, args[i:]...), err
		}
		words := args[i : i+1]
		if !glued && i+1 < len(args) {
			i++
			words, value = args[i-1:i+1], args[i]
		}
		if name == "--instance" || value == "" { // an option without text is refused later
			rest = append(rest, words...)
			continue
		}
		err = errors.Join(err, root.PersistentFlags().Set("node", value))
	}
	return rest, err
}

// oneLine turns cobra's suggestions, which stand on separate lines, into a hint.
func oneLine(err error) error {
	var told *filch.Error
	if errors.As(err, &told) {
		return told
	}
	text, more, found := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(text, ` for "filch"`)
	e := filch.Errorf(filch.Invalid, "%s", text)
	if words := strings.Fields(more); found && len(words) > 0 {
		return e.WithHint("did you mean %s?", words[len(words)-1])
	}
	return e.WithHint("filch --help lists the commands")
}

// bareRoot is the root without commands.
func bareRoot() (root *cobra.Command, g *cli.Global) {
	g = &cli.Global{}
	root = &cobra.Command{
		Use:   "filch",
		Short: "start MPI programs and tasks on a set of nodes, without a server",
		Long: `filch starts MPI programs and tasks on a set of nodes. There is no server: every
node runs the same launcher, and a job gathers slots by stealing them from nodes.`,
		Example: `  filch up                       start launchers on this machine
  filch run -n 4 hostname        run four ranks
  filch nodes                    see the nodes
  filch down                     stop all launchers`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return ui.Misused(unknownCommand(cmd, args[0]))
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().StringVar(&g.Instance, "instance", "", "use the instance `NAME` (default: $FILCH_INSTANCE, or the only one)")
	root.PersistentFlags().StringVar(&g.Node, "node", "", "ask the launcher of this node, when several run on one machine")
	_ = root.PersistentFlags().MarkHidden("node")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetUsageFunc(cli.Usage)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run programs:"},
		&cobra.Group{ID: "jobs", Title: "See and steer jobs:"},
		&cobra.Group{ID: "nodes", Title: "Nodes and instances:"},
	)
	root.SetHelpCommandGroupID("nodes")
	root.SetCompletionCommandGroupID("nodes")
	return root, g
}

// newRoot is the tree of all commands.
func newRoot() *cobra.Command {
	root, g := bareRoot()
	for _, c := range commands() {
		root.AddCommand(c.build(g))
	}
	strict(root)
	completion(root, g)
	ownHelp(root)
	return root
}

// newRootFor is the tree for a command line: the one command that args name, or all
// commands. All of them are 0.4 MB, a fifth of the CPU of a short client.
func newRootFor(args []string) *cobra.Command {
	name := commandOf(args)
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name && !c.readsTree })
	if i < 0 {
		return newRoot()
	}
	root, g := bareRoot()
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(all[i].build(g))
	strict(root)
	return root
}

// commandOf is the first word of a command line that is no option of root.
func commandOf(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--instance" || args[i] == "--node":
			i++
		case !strings.HasPrefix(args[i], "--instance=") && !strings.HasPrefix(args[i], "--node="):
			return args[i]
		}
	}
	return ""
}

func strict(root *cobra.Command) {
	for _, c := range root.Commands() {
		cli.Strict(c)
		for _, sub := range c.Commands() {
			cli.Strict(sub)
		}
	}
}

// ownHelp gives cobra's help and completion commands the words of filch.
func ownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			ownCompletion(c)
		case "help":
			c.Use, c.Short = "help [COMMAND]", "help about a command"
			c.Long = "Prints the help of a command, as COMMAND --help does."
			c.Run = nil
			c.RunE = func(_ *cobra.Command, args []string) error {
				about, more, err := root.Find(args)
				if err != nil || about == root && len(args) > 0 {
					return ui.Misused(unknownCommand(root, args[0]))
				}
				if len(more) > 0 {
					return ui.Misused(unknownCommand(about, more[0]))
				}
				return about.Help()
			}
		}
	}
}

// loadCompletion says how each shell loads the script.
var loadCompletion = map[string]string{
	"bash":       "  source <(filch completion bash)\n  filch completion bash > ~/.local/share/bash-completion/completions/filch",
	"zsh":        "  source <(filch completion zsh)\n  filch completion zsh > \"${fpath[1]}/_filch\"",
	"fish":       "  filch completion fish | source\n  filch completion fish > ~/.config/fish/completions/filch.fish",
	"powershell": "  filch completion powershell | Out-String | Invoke-Expression",
}

// ownCompletion gives the completion command and the commands of its shells our words.
func ownCompletion(c *cobra.Command) {
	c.Short = "write a completion script for a shell"
	c.Long = "Writes a script with which a shell completes filch's commands, options and jobs. The\ninstalled packages have the scripts of bash, zsh and fish in place."
	c.Example = "  source <(filch completion bash)"
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return ui.Misused(filch.Errorf(filch.Invalid, "there is no completion for the shell %s", ui.Clean(args[0])).WithHint("filch completion --help lists the shells"))
		}
		return cmd.Help()
	}
	for _, shell := range c.Commands() {
		shell.Short = "write the completion script for " + shell.Name()
		shell.Long = "Writes the completion script for " + shell.Name() + ": for this shell, or for every new shell."
		shell.Example = loadCompletion[shell.Name()]
		if f := shell.Flags().Lookup("no-descriptions"); f != nil {
			f.Usage = "complete without descriptions"
		}
		shell.RunE = writeCompletion
		cli.Strict(shell)
	}
}

// writeCompletion writes the script for the shell with the name of the command, without the
// comments that point to the pages of the generator.
func writeCompletion(shell *cobra.Command, _ []string) error {
	root, script := shell.Root(), &bytes.Buffer{}
	bare, err := shell.Flags().GetBool("no-descriptions")
	if err != nil {
		return err
	}
	switch name := shell.Name(); {
	case name == "bash":
		err = root.GenBashCompletionV2(script, !bare)
	case name == "zsh" && bare:
		err = root.GenZshCompletionNoDesc(script)
	case name == "zsh":
		err = root.GenZshCompletion(script)
	case name == "fish":
		err = root.GenFishCompletion(script, !bare)
	case bare:
		err = root.GenPowerShellCompletion(script)
	default:
		err = root.GenPowerShellCompletionWithDesc(script)
	}
	for line := range strings.Lines(script.String()) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") || !strings.Contains(line, "://") {
			ui.Printf("%s", line)
		}
	}
	return err
}

// otherNames are commands of other programs, with the command of filch that does the same.
var otherNames = map[string]string{
	"abort": "cancel", "delete": "cancel", "kill": "cancel", "qdel": "cancel", "scancel": "cancel", "stop": "cancel",
	"jobs": "ps", "list": "ps", "qstat": "ps", "queue": "ps", "squeue": "ps", "status": "ps", "htop": "top",
	"hosts": "nodes", "sinfo": "nodes", "output": "logs", "sacct": "history", "scontrol": "info",
	"mpiexec": "run", "mpirun": "run", "srun": "run", "parallel": "submit", "qsub": "submit", "sbatch": "submit",
	"pause": "hold", "suspend": "hold", "continue": "release", "resume": "release", "rerun": "retry", "requeue": "retry",
}

// unknownCommand is the error for a command that is not below c.
func unknownCommand(c *cobra.Command, name string) error {
	e := cli.UnknownCommand(c, name)
	if known := otherNames[name]; known != "" && !c.HasParent() {
		return e.WithHint("did you mean %s %s?", c.CommandPath(), known)
	}
	return e
}

// runCommand stands for filch run in help, manual and completion; [runMain] runs
// the command.
func runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "run [OPTIONS] COMMAND [ARGUMENTS] [: [OPTIONS] COMMAND ...]",
		GroupID: "run",
		Short:   "run a parallel program",
		Long: `Runs a program as N ranks on the slots of the instance. The options mean the same as
srun's, and end at the command. The first rank that ends badly ends the job and gives
the exit code; with -K0 the other ranks go on. See docs/exit-codes.md.`,
		Example: `  filch run -n 16 ./solver in.nml
  filch run -N 4 --ntasks-per-node=2 -l hostname
  filch run -n 1 ./master : -n 8 ./worker
  filch run -n 4 -t 10:00 -o out.%t ./a.out
  filch run --detach -n 2 ./long      and later: filch wait last`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE:                  func(_ *cobra.Command, args []string) error { return ui.Exit(runMain(args, "")) },
	}
	c.Flags().SetInterspersed(false)
	c.Flags().SortFlags = false
	for i := range spec.Options {
		o := &spec.Options[i]
		if o.Name == "instance" || o.Name == "help" {
			continue
		}
		f := &pflag.Flag{Name: o.Name, Usage: o.Help, Value: optionValue{o}}
		if o.Short != 0 {
			f.Shorthand = string(o.Short)
		}
		if o.Arg == "" {
			f.NoOptDefVal = "true"
		} else if o.Optional != "" {
			f.NoOptDefVal = o.Optional
		}
		c.Flags().AddFlag(f)
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_, _ = fmt.Fprintf(c.OutOrStdout(), "%s\n\nUsage:\n  filch %s\n\nExamples:\n%s\n\nOptions:\n%s", c.Long, c.Use, c.Example, optionList())
	})
	return c
}

// optionList is the list of the options of filch run in the help.
func optionList() string {
	left, width := make([]string, len(spec.Options)), 0
	for i, o := range spec.Options {
		s := "      --" + o.Name
		if o.Short != 0 {
			s = "  -" + string(o.Short) + ", --" + o.Name
		}
		switch {
		case o.Optional != "":
			s += "[=" + o.Arg + "]"
		case o.Arg != "":
			s += " " + o.Arg
		}
		left[i], width = s, max(width, len(s))
	}
	var b strings.Builder
	for i, o := range spec.Options {
		fmt.Fprintf(&b, "%-*s  %s\n", width, left[i], o.Help)
	}
	return b.String()
}

// optionValue shows an option of launcher/spec to the help.
type optionValue struct{ *spec.Option }

func (v optionValue) String() string   { return "" }
func (v optionValue) Set(string) error { return nil }
func (v optionValue) Type() string {
	if v.Arg == "" {
		return "bool"
	}
	return v.Arg
}

func runHelp() int {
	root := newRoot()
	root.SetArgs([]string{"run", "--help"})
	root.SetOut(os.Stdout)
	if err := root.Execute(); err != nil {
		return ui.Fail(err)
	}
	return 0
}
