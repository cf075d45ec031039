package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UseLine is the command line of c: the command, its options and its arguments.
func UseLine(c *cobra.Command) string {
	name, arguments, _ := strings.Cut(c.Use, " ")
	path := strings.TrimSuffix(c.CommandPath(), c.Name()) + name
	switch {
	case c.HasAvailableSubCommands():
		if arguments = "COMMAND"; c.Runnable() && c.HasParent() && ownOptions(c) {
			arguments = "[COMMAND] [OPTIONS]"
		} else if !c.HasParent() {
			arguments = "COMMAND [OPTIONS] [ARGUMENTS]"
		}
	case ownOptions(c) && !c.DisableFlagsInUseLine && !strings.Contains(c.Use, "[OPTIONS]"):
		path += " [OPTIONS]"
	}
	return strings.TrimRight(path+" "+arguments, " ")
}

// ownOptions reports whether c has options but --help and those of every command.
func ownOptions(c *cobra.Command) (has bool) {
	if c.DisableFlagParsing {
		return false
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { has = has || !f.Hidden && f.Name != "help" })
	return has
}

// Option is an option as help and manual write it: the names with the value, and the
// meaning with the usual value.
func Option(f *pflag.Flag) (term, text string) {
	value, text := pflag.UnquoteUsage(f)
	if f.Name == "help" {
		text = "this text"
	}
	term = "--" + f.Name
	if f.Shorthand != "" {
		term = "-" + f.Shorthand + ", " + term
	}
	switch {
	case value == "":
	case f.NoOptDefVal != "":
		term += "[=" + value + "]"
	default:
		term += " " + value
	}
	switch usual := strings.Trim(f.DefValue, "[]"); usual {
	case "", "false", "0", "0s", "-1":
	default:
		text += " (default " + usual + ")"
	}
	return term, text
}

// OptionList lists options that are not hidden, one a line.
func OptionList(flags *pflag.FlagSet) string {
	var terms, texts []string
	width := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		term, text := Option(f)
		indent := "  "
		if f.Shorthand == "" {
			indent = "      "
		}
		terms, texts, width = append(terms, indent+term), append(texts, text), max(width, len(indent)+len(term))
	})
	var b strings.Builder
	for i, term := range terms {
		fmt.Fprintf(&b, "%-*s  %s\n", width, term, texts[i])
	}
	return b.String()
}

// Usage writes the part of a command's help below the description.
func Usage(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", UseLine(c))
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	listCommands(&b, c)
	part := func(head, list string) {
		if list != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", head, list)
		}
	}
	part("Options", OptionList(c.LocalFlags()))
	part("Option of every command", OptionList(c.InheritedFlags()))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells about a command.\n", c.CommandPath())
	}
	_, err := c.OutOrStderr().Write([]byte(b.String()))
	return err
}

// listCommands lists the commands below c, by group if c has groups.
func listCommands(b *strings.Builder, c *cobra.Command) {
	list := func(head, group string) {
		any := false
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() && sub.Name() != "help" || sub.GroupID != group {
				continue
			}
			if !any {
				fmt.Fprintf(b, "\n%s\n", head)
			}
			any = true
			fmt.Fprintf(b, "  %-*s  %s\n", c.NamePadding(), sub.Name(), sub.Short)
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, g.ID)
	}
	list("Commands:", "")
}
