package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/spec"
)

// sshValued are ssh's options that have a value.
const sshValued = "bcDEeFIiJLlmOopQRSWw"

func sshCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ssh HOST [--] COMMAND...",
		GroupID: "run",
		Short:   "run a command on a node, called as ssh is",
		Long: `Runs a command on one node of the instance, through a shell, for programs that
start their helpers with ssh: mpiexec -launcher-exec, parallel --ssh, Open MPI's
plm_rsh_agent. Options of ssh are read and change nothing.`,
		Example: `  filch ssh n3 hostname
  mpiexec -launcher ssh -launcher-exec 'filch ssh' -hosts n1,n2 ./a.out
  parallel --ssh 'filch ssh' -S n1,n2 hostname ::: 1 2`,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
				return c.Help()
			}
			return exit{sshMain(args)}
		},
	}
}

// sshWords takes an ssh command line apart.
func sshWords(args []string) (host, command string, err error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		word := args[0][1:]
		args = args[1:]
		for i := 0; i < len(word); i++ {
			if !strings.ContainsRune(sshValued, rune(word[i])) {
				continue
			}
			if i == len(word)-1 && len(args) > 0 {
				args = args[1:]
			}
			break
		}
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "" {
		return "", "", filch.Errorf(filch.Invalid, "ssh: no host").WithHint("filch ssh HOST COMMAND")
	}
	host, args = args[0], args[1:]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return "", "", filch.Errorf(filch.Invalid, "ssh %s: no command; filch ssh opens no shell", clean(host)).
			WithHint("filch run --pty -w %s bash", clean(host))
	}
	return host, strings.Join(args, " "), nil
}

// sshMain runs the command in the home folder, as ssh does, beside whatever
// else runs there: what is started so is a helper that waits, as a rule.
func sshMain(args []string) int {
	host, command, err := sshWords(args)
	if err != nil {
		return usage(err)
	}
	words := []string{"--ntasks=1", "--overcommit", "--quiet", "--mpi=none", "--cpu-bind=none", "--nodelist=" + host, "--job-name=ssh"}
	if home := os.Getenv("HOME"); home != "" {
		words = append(words, "--chdir="+home)
	}
	r, err := spec.Parse(append(words, "sh", "-c", command))
	if err != nil {
		return usage(err)
	}
	around, err := surroundings()
	if err != nil {
		return fail(err)
	}
	if _, err := r.Finish(around); err != nil {
		return usage(err)
	}
	return launch(r, around)
}
