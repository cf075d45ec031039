package manual

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch/cmd/filch/cli"
)

// page is a page of the manual.
type page struct {
	Name    string // filch-run
	Number  int    // the section of the manual: 1 for commands, 7 for overviews
	Short   string // one line without a full stop
	Content []section
}

// section is a part of a page under a headline in capitals.
type section struct {
	Head   string
	Blocks []block
}

// block is a paragraph; or lines that stay as written; or, with a Term, an item of a
// list.
type block struct {
	Term string
	Text string
	Asis bool
}

// File is the name of the page's file: filch-run.1.
func (p *page) File() string { return p.Name + "." + strconv.Itoa(p.Number) }

// pagesOf returns all pages: of each command that is not hidden, and of the environment.
func pagesOf(root *cobra.Command) []page {
	pages := commandPages(root, nil)
	return append(pages, environmentPage())
}

func commandPages(c *cobra.Command, pages []page) []page {
	pages = append(pages, commandPage(c))
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			pages = commandPages(sub, pages)
		}
	}
	return pages
}

// nameOf is the name of a command's page.
func nameOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func commandPage(c *cobra.Command) page {
	p := page{Name: nameOf(c), Number: 1, Short: strings.TrimSuffix(c.Short, ".")}
	add := func(head string, blocks ...block) {
		if len(blocks) > 0 {
			p.Content = append(p.Content, section{head, blocks})
		}
	}
	add("SYNOPSIS", block{Text: cli.UseLine(c), Asis: true})
	long := c.Long
	if long == "" {
		long = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	add("DESCRIPTION", blocksOf(long)...)
	add("COMMANDS", commandsOf(c)...)
	add("OPTIONS", optionsOf(c.NonInheritedFlags())...)
	add("OPTIONS OF EVERY COMMAND", optionsOf(c.InheritedFlags())...)
	if c.Example != "" {
		add("EXAMPLES", block{Text: strings.TrimRight(unindent(c.Example), "\n"), Asis: true})
	}
	add("SEE ALSO", block{Text: strings.Join(seeAlso(c), ", ")})
	return p
}

// blocksOf cuts the long help of a command: lines with an indent stay as written.
func blocksOf(long string) (blocks []block) {
	for part := range strings.SplitSeq(strings.Trim(long, "\n"), "\n\n") {
		var lines []string
		asis := false
		flush := func() {
			if len(lines) > 0 {
				blocks = append(blocks, block{Text: strings.Join(lines, "\n"), Asis: asis})
			}
			lines = nil
		}
		for line := range strings.SplitSeq(part, "\n") {
			if indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); indented != asis {
				flush()
				asis = indented
			}
			lines = append(lines, line)
		}
		flush()
	}
	return blocks
}

// unindent takes away the two spaces that examples have in the help.
func unindent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	return b.String()
}

func commandsOf(c *cobra.Command) (blocks []block) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			blocks = append(blocks, block{Term: sub.Name(), Text: sub.Short})
		}
	}
	return blocks
}

func optionsOf(flags *pflag.FlagSet) (blocks []block) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		term, text := cli.Option(f)
		blocks = append(blocks, block{Term: term, Text: text})
	})
	return blocks
}

// seeAlso names the page above, the pages below, and the page of the environment.
func seeAlso(c *cobra.Command) (names []string) {
	if c.HasParent() {
		names = append(names, nameOf(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			names = append(names, nameOf(sub)+"(1)")
		}
	}
	return append(names, environmentName+"(7)")
}

func (p *page) title() string { return fmt.Sprintf("%s(%d)", p.Name, p.Number) }
