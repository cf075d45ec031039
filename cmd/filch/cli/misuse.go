package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// optionTypos is the number of typing errors from which an option is another option.
const optionTypos = 3

// sameElsewhere are options of some commands, with the option of other commands that does the same.
var sameElsewhere = map[string]string{"tag": "label", "label": "tag"}

// FlagError is the error of a wrong option of a command, in filch's words.
func FlagError(cmd *cobra.Command, err error) error {
	e := OptionError(cmd.Flags(), err)
	if e.Hint == "" {
		e = e.WithHint("%s --help", cmd.CommandPath())
	}
	return ui.Misused(e)
}

// OptionError is the error of a wrong option among p in filch's words.
func OptionError(p *pflag.FlagSet, err error) *filch.Error {
	var told *filch.Error
	var missing *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	e := filch.Errorf(filch.Invalid, "%s", ui.Clean(err.Error()))
	switch {
	case errors.As(err, &missing):
		e = unknownOption(p, missing)
	case errors.As(err, &bare):
		o := bare.GetFlag()
		value, _ := pflag.UnquoteUsage(o)
		e = filch.Errorf(filch.Invalid, "option --%s needs a value: %s", o.Name, value)
	case errors.As(err, &wrong):
		e = wrongValue(wrong)
	case errors.As(err, &syntax):
		e = filch.Errorf(filch.Invalid, "%s is not an option", ui.Clean(syntax.GetSpecifiedFlag()))
	case errors.As(err, &told):
		e = told
	}
	return e
}

func unknownOption(p *pflag.FlagSet, missing *pflag.NotExistError) *filch.Error {
	if letters := missing.GetSpecifiedShortnames(); letters != "" {
		e := filch.Errorf(filch.Invalid, "unknown option -%s", ui.Clean(missing.GetSpecifiedName()))
		if long := strings.TrimLeft(letters, "-"); p.Lookup(long) != nil {
			return e.WithHint("did you mean --%s?", long)
		}
		return e
	}
	name := missing.GetSpecifiedName()
	e := filch.Errorf(filch.Invalid, "unknown option --%s", ui.Clean(name))
	if name == "np" && p.ShorthandLookup("n") != nil { // of mpiexec
		return e.WithHint("did you mean -n?")
	}
	if same := sameElsewhere[name]; p.Lookup(same) != nil {
		return e.WithHint("did you mean --%s?", same)
	}
	near := filch.Nearest(name, func(yield func(string) bool) {
		more := true
		p.VisitAll(func(o *pflag.Flag) { more = more && (o.Hidden || yield(o.Name)) })
	}, optionTypos)
	if near != "" {
		return e.WithHint("did you mean --%s?", near)
	}
	return e
}

// wrongValue names the option, the value, and the values that the option takes.
func wrongValue(wrong *pflag.InvalidValueError) *filch.Error {
	o, value := wrong.GetFlag(), strconv.Quote(wrong.GetValue())
	var told *filch.Error
	if errors.As(OfOption(o.Name, wrong), &told) {
		return told
	}
	kind, _ := strings.CutSuffix(o.Value.Type(), "Slice")
	switch {
	case kind == "bool":
		return filch.Errorf(filch.Invalid, "--%s %s is neither true nor false", o.Name, value)
	case strings.HasPrefix(kind, "float"):
		return filch.Errorf(filch.Invalid, "--%s %s is not a number", o.Name, value)
	case errors.Is(wrong, strconv.ErrRange):
		return filch.Errorf(filch.Invalid, "--%s %s is too large", o.Name, value)
	case strings.HasPrefix(kind, "int"):
		return filch.Errorf(filch.Invalid, "--%s %s is not a whole number", o.Name, value)
	}
	return filch.Errorf(filch.Invalid, "--%s %s makes no sense", o.Name, value)
}

// OfOption names the option in the error of an option's value; an error of no [filch.Error]
// stays.
func OfOption(name string, err error) error {
	var told *filch.Error
	if !errors.As(err, &told) {
		return err
	}
	e := *told
	e.Text = "--" + name + ": " + told.Text
	if errors.As(err, new(ui.Misuse)) {
		return ui.Misused(&e)
	}
	return &e
}

// argumentsMost bounds the search for the numbers of arguments that a command takes.
const argumentsMost = 4

// Strict makes mistakes in the number of arguments, and options without text, a misuse.
func Strict(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := notEmpty(cmd.Flags()); err != nil {
			return err
		}
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		var told *filch.Error
		if errors.As(err, &told) {
			return ui.Misused(told)
		}
		return ui.Misused(wrongCount(cmd, args, func(n int) bool { return check(cmd, make([]string, n)) == nil }))
	}
}

// wrongCount is the error for a number of arguments that a command does not take.
func wrongCount(cmd *cobra.Command, args []string, takes func(n int) bool) error {
	_, names, _ := strings.Cut(cmd.Use, " ")
	for strings.HasPrefix(names, "[") { // the options
		_, names, _ = strings.Cut(names, "] ")
	}
	most := -1
	for n := range argumentsMost {
		if takes(n) {
			most = n
		}
	}
	names, _, _ = strings.Cut(names, " | ")
	var e *filch.Error
	switch {
	case len(args) <= most:
		e = filch.Errorf(filch.Invalid, "%s needs %s", cmd.CommandPath(), names)
	case most == 0:
		e = filch.Errorf(filch.Invalid, "%s takes no argument, and %s is given", cmd.CommandPath(), strconv.Quote(args[0]))
	default:
		e = filch.Errorf(filch.Invalid, "%s takes %s, and %d are given: %s is too much", cmd.CommandPath(), filch.Plural(most, "argument"), len(args), strconv.Quote(args[most]))
	}
	return e.WithHint("%s --help", cmd.CommandPath())
}

// UnknownCommand is the error for a command that is not below c, with the name that is
// nearest.
func UnknownCommand(c *cobra.Command, name string) *filch.Error {
	if !c.HasAvailableSubCommands() {
		return filch.Errorf(filch.Invalid, "%s has no commands below it, and %s is given", c.CommandPath(), strconv.Quote(name)).WithHint("%s --help", c.CommandPath())
	}
	_, group, _ := strings.Cut(c.CommandPath()+" ", " ")
	e := filch.Errorf(filch.Invalid, "there is no command %s", group+ui.Clean(name))
	for distance := 1; distance <= 2; distance++ {
		c.SuggestionsMinimumDistance = distance
		if near := c.SuggestionsFor(name); len(near) > 0 {
			return e.WithHint("did you mean %s %s?", c.CommandPath(), near[0])
		}
	}
	return e.WithHint("%s --help lists the commands", c.CommandPath())
}
