// Package script reads the options that stand in the script of filch submit: lines of #FILCH
// with options of filch submit, and of #SBATCH with options of sbatch. The command line goes
// before #FILCH, and #FILCH before #SBATCH.
package script

import (
	"bytes"
	"errors"
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

// headMax bounds the beginning of a script with directives, in bytes.
const headMax = 64 << 10

// shell runs a script whose first line names no interpreter, as a shell does.
const shell = "/bin/sh"

// Options are the options of filch submit.
type Options struct {
	Given   *pflag.FlagSet         // those of the command line, and then those of the script
	Declare func(p *pflag.FlagSet) // declares the options once more
	Alike   []string               // of which one stands for the others too
	Never   func(name string) bool // reports an option of sbatch that a script cannot have
	told    map[string]bool        // no later line sets these
}

// Apply reads the directives of the script in args, if there is a script, and returns the words
// that start the script.
func (o *Options) Apply(args []string) ([]string, error) {
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
	text, err := head(path)
	if err != nil || text == "" {
		return args, nil
	}
	ours, err := spec.ReadDirectives(text, "#FILCH")
	if err != nil {
		return args, inScript(path, err)
	}
	theirs, err := spec.SbatchDirectives(text)
	if err != nil {
		return args, inScript(path, err)
	}
	first, _, _ := strings.Cut(text, "\n")
	program, marked := strings.CutPrefix(first, "#!")
	switch {
	case !marked && !found && st.Mode()&0o111 != 0 && len(ours)+len(theirs) == 0:
		return args, nil // the nodes run the file as a shell does
	case !marked:
		args = slices.Concat([]string{shell, path}, args[1:])
	case st.Mode()&0o111 == 0:
		args = slices.Concat(strings.Fields(program), []string{path}, args[1:])
	case found:
		args = slices.Concat([]string{path}, args[1:])
	}
	o.tell()
	if err := o.filchLines(ours); err != nil {
		return args, inScript(path, err)
	}
	if err := o.sbatchLines(theirs); err != nil {
		return args, inScript(path, err)
	}
	return args, nil
}

// tell notes the options that were given.
func (o *Options) tell() {
	if o.told == nil {
		o.told = map[string]bool{}
	}
	o.Given.Visit(func(f *pflag.Flag) {
		o.told[f.Name] = true
		if slices.Contains(o.Alike, f.Name) {
			for _, other := range o.Alike {
				o.told[other] = true
			}
		}
	})
}

// inScript is the error of a script.
func inScript(path string, err error) error {
	e := filch.Errorf(filch.Invalid, "%s: %s", ui.Clean(path), err.Error())
	var told *filch.Error
	if errors.As(err, &told) && told.Hint != "" {
		return e.WithHint("%s", told.Hint)
	}
	return e.WithHint("filch submit -- sh %s does not read the options in the script", ui.Clean(path))
}

// head is the beginning of a text; "" of a file that is no text.
func head(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, headMax))
	if bytes.IndexByte(b, 0) >= 0 {
		b = nil
	}
	return string(b), err
}

// filchLines applies the #FILCH lines, but no option that was told already.
func (o *Options) filchLines(lines []spec.Directive) error {
	for _, d := range lines {
		p := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Declare(p)
		if err := p.Parse(d.Words); err != nil {
			e := cli.OptionError(p, err)
			return filch.Errorf(filch.Invalid, "line %d: cannot read #FILCH %s: %s", d.Line, strings.Join(d.Words, " "), e.Text).WithHint("%s", e.Hint)
		}
		if p.NArg() > 0 {
			return filch.Errorf(filch.Invalid, "line %d: #FILCH %s: %q is no option", d.Line, strings.Join(d.Words, " "), p.Arg(0))
		}
		var wrong error
		p.Visit(func(f *pflag.Flag) {
			if o.told[f.Name] || wrong != nil {
				return
			}
			values := []string{f.Value.String()}
			if list, ok := f.Value.(pflag.SliceValue); ok {
				values = list.GetSlice()
			}
			for _, v := range values {
				wrong = o.Given.Set(f.Name, v)
			}
		})
		if wrong != nil {
			return filch.Errorf(filch.Invalid, "line %d: %s", d.Line, wrong.Error())
		}
	}
	o.tell()
	return nil
}

// sbatchLines applies the options of the #SBATCH lines, but none that was told already. An option
// that a task cannot have is an error, unless sbatch's shim ignores the option too.
func (o *Options) sbatchLines(all []spec.SbatchDirective) error {
	if len(all) > 0 && !o.told["slurm-env"] && !o.told["worker"] {
		if err := o.Given.Set("slurm-env", "true"); err != nil {
			return err
		}
	}
	for _, d := range all {
		switch f := o.Given.Lookup(d.Name); {
		case d.Idle || o.told[d.Name]:
		case f == nil || o.Never(d.Name): // sbatch starts one process, with room for more
			return filch.Errorf(filch.Invalid, "line %d: a task cannot have #SBATCH --%s", d.Line, d.Name)
		default:
			if err := o.Given.Set(d.Name, d.Value); err != nil {
				return filch.Errorf(filch.Invalid, "line %d: #SBATCH --%s: %q makes no sense", d.Line, d.Name, d.Value)
			}
		}
	}
	return nil
}
