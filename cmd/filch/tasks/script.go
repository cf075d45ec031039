package tasks

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// maxDirectives bounds the beginning of a script with directives, in bytes.
const maxDirectives = 64 << 10

// applyScript reads the directives of the script in args, if there is one: lines of
// #FILCH with options of filch submit, and of #SBATCH. The command line goes before
// #FILCH, and #FILCH before #SBATCH. applyScript returns the words that start the script.
func applyScript(given *pflag.FlagSet, args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	path, found := args[0], false
	if !strings.Contains(path, "/") {
		if _, err := exec.LookPath(path); err == nil {
			return args, nil
		}
		path, found = "./"+path, true
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return args, nil // the nodes look for the command
	}
	text, err := scriptHead(path)
	if err != nil || text == "" {
		return args, nil
	}
	if st.Mode()&0o111 == 0 {
		first, _, _ := strings.Cut(text[2:], "\n")
		args = slices.Concat(strings.Fields(first), []string{path}, args[1:])
	} else if found {
		args = slices.Concat([]string{path}, args[1:])
	}
	told := toldOptions{}
	told.add(given)
	if err := filchLines(given, text, told); err != nil {
		return args, inScript(path, err)
	}
	if err := sbatchLines(given, text, told); err != nil {
		return args, inScript(path, err)
	}
	return args, nil
}

// toldOptions are the options that no later line of a script sets.
type toldOptions map[string]bool

// add adds the options that were given. One option for GPUs stands for the others too.
func (t toldOptions) add(given *pflag.FlagSet) {
	given.Visit(func(o *pflag.Flag) {
		t[o.Name] = true
		if slices.Contains(gpuOptions[:], o.Name) {
			for _, other := range gpuOptions {
				t[other] = true
			}
		}
	})
}

func inScript(path string, err error) error {
	e := filch.Errorf(filch.Invalid, "%s: %s", ui.Clean(path), err.Error())
	return e.WithHint("filch submit -- sh %s does not read the options in the script", ui.Clean(path))
}

// scriptHead is the beginning of a script; "" of a file that is none.
func scriptHead(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	var mark [2]byte
	if _, err := io.ReadFull(in, mark[:]); err != nil || string(mark[:]) != "#!" {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(in, maxDirectives))
	return "#!" + string(b), err
}

// filchLines applies the #FILCH lines, but no option that the command line set.
func filchLines(given *pflag.FlagSet, text string, told toldOptions) error {
	lines, err := spec.ReadDirectives(text, "#FILCH")
	if err != nil {
		return err
	}
	for _, words := range lines {
		p := pflag.NewFlagSet("", pflag.ContinueOnError)
		(&submitFlags{}).declare(p)
		if err := p.Parse(words); err != nil {
			return filch.Errorf(filch.Invalid, "cannot read #FILCH %s: %s", strings.Join(words, " "), cli.OptionError(p, err).Text)
		}
		if p.NArg() > 0 {
			return filch.Errorf(filch.Invalid, "#FILCH %s: %q is no option", strings.Join(words, " "), p.Arg(0))
		}
		var wrong error
		p.Visit(func(o *pflag.Flag) {
			if told[o.Name] || wrong != nil {
				return
			}
			values := []string{o.Value.String()}
			if list, ok := o.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, v := range values {
				wrong = given.Set(o.Name, v)
			}
		})
		if wrong != nil {
			return wrong
		}
	}
	told.add(given)
	return nil
}

// sbatchLines applies the #SBATCH lines, but no option that was set already. An option
// that a task cannot have is an error, unless sbatch's shim ignores the option too.
func sbatchLines(given *pflag.FlagSet, text string, told toldOptions) error {
	all, err := spec.SbatchDirectives(text)
	if err != nil {
		return err
	}
	if len(all) > 0 && !told["slurm-env"] && !told["worker"] {
		if err := given.Set("slurm-env", "true"); err != nil {
			return err
		}
	}
	for _, d := range all {
		switch o := given.Lookup(d.Name); {
		case d.Idle || told[d.Name]:
		case o == nil || isGangOption(d.Name): // sbatch starts one process, with room for more
			return filch.Errorf(filch.Invalid, "a task cannot have #SBATCH --%s", d.Name)
		default:
			if err := given.Set(d.Name, d.Value); err != nil {
				return filch.Errorf(filch.Invalid, "#SBATCH --%s: %q makes no sense", d.Name, d.Value)
			}
		}
	}
	return nil
}
