package shims

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// sshValued are ssh's options that have a value.
const sshValued = "bcDEeFIiJLlmOopQRSWw"

func SshCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ssh HOST [--] COMMAND...",
		GroupID: "run",
		Short:   "run a command on a node, with the command line of ssh",
		Long: `Runs a command through a shell on one node of the instance, for programs that start
helpers with ssh: mpiexec -launcher-exec, parallel --ssh, Open MPI's plm_rsh_agent.
With -n or -f, the command gets no standard input. Options that forward ports are
refused, and all other options of ssh are ignored.`,
		Example: `  filch ssh n3 hostname
  mpiexec -launcher ssh -launcher-exec 'filch ssh' -hosts n1,n2 ./a.out
  parallel --ssh 'filch ssh' -S n1,n2 hostname ::: 1 2`,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
				return c.Help()
			}
			return ui.Exit(SSH(args, ""))
		},
	}
}

// sshForwards are the options of ssh for forwarding, which filch ssh lacks.
const sshForwards = "DLRw"

// sshCall is an ssh command line.
type sshCall struct {
	host, command string
	deaf          bool // reads no standard input
}

// sshWords takes an ssh command line apart.
func sshWords(args []string) (s sshCall, err error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		word := args[0][1:]
		args = args[1:]
		for i := 0; i < len(word); i++ {
			if strings.IndexByte(sshForwards, word[i]) >= 0 {
				return s, filch.Errorf(filch.Invalid, "ssh -%c: filch ssh does not forward ports", word[i])
			}
			s.deaf = s.deaf || word[i] == 'n' || word[i] == 'f'
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
		return s, filch.Errorf(filch.Invalid, "ssh: no host").WithHint("filch ssh HOST COMMAND")
	}
	s.host, args = args[0], args[1:]
	if i := strings.LastIndexByte(s.host, '@'); i >= 0 {
		s.host = s.host[i+1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return s, filch.Errorf(filch.Invalid, "ssh %s: the command is missing, and filch ssh opens no shell", ui.Clean(s.host)).
			WithHint("filch run --pty -w %s bash", ui.Clean(s.host))
	}
	s.command = strings.Join(args, " ")
	return s, nil
}

// SSH runs a command line of ssh in an instance; "" is the usual one. The command runs in
// the home folder, as with ssh, beside any job there: a command started by ssh is usually a
// helper that waits.
func SSH(args []string, instance string) int {
	s, err := sshWords(args)
	if err != nil {
		return ui.Usage(err)
	}
	words := []string{"--ntasks=1", "--overcommit", "--quiet", "--mpi=none", "--cpu-bind=none", "--nodelist=" + s.host, "--job-name=ssh"}
	if instance != "" {
		words = append(words, "--instance="+instance)
	}
	if s.deaf {
		words = append(words, "--input=none")
	}
	if home := os.Getenv("HOME"); home != "" {
		words = append(words, "--chdir="+home)
	}
	r, err := spec.Parse(append(words, "sh", "-c", s.command))
	if err != nil {
		return ui.Usage(err)
	}
	around, err := cli.Environment()
	if err != nil {
		return ui.Fail(err)
	}
	if _, err := r.Finish(around); err != nil {
		return ui.Usage(err)
	}
	return runclient.Launch(r, around)
}
