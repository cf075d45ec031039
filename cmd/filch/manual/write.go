package manual

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
)

// Columns of a page that is printed as text.
const (
	textWidth  = 78
	bodyIndent = 7
	itemIndent = 14
)

// asText is the page without any control character.
func (p *page) asText() string {
	var b strings.Builder
	title := strings.ToUpper(p.title())
	fmt.Fprintf(&b, "%s%*s\n\nNAME\n", title, textWidth-len(title), title)
	fill(&b, p.Name+" - "+p.Short, bodyIndent)
	for _, s := range p.Content {
		fmt.Fprintf(&b, "\n%s\n", s.Head)
		for i, block := range s.Blocks {
			if i > 0 {
				b.WriteByte('\n')
			}
			switch {
			case block.Term != "":
				fill(&b, block.Term, bodyIndent)
				fill(&b, block.Text, itemIndent)
			case block.Asis:
				for line := range strings.SplitSeq(block.Text, "\n") {
					b.WriteString(strings.TrimRight(strings.Repeat(" ", bodyIndent)+line, " ") + "\n")
				}
			default:
				fill(&b, block.Text, bodyIndent)
			}
		}
	}
	return b.String()
}

// fill writes the words of a text into lines.
func fill(b *strings.Builder, text string, indent int) {
	at := 0
	for w := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(w)
		switch {
		case at == 0:
			b.WriteString(strings.Repeat(" ", indent))
			at = indent
		case at+1+n > textWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += n
	}
	if at > 0 {
		b.WriteByte('\n')
	}
}

// asRoff is the page for man, in the macros of man(7). The page has no date, so that one
// build writes the same bytes every day.
func (p *page) asRoff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %d \"\" \"filch %s\" \"filch manual\"\n.nh\n.ad l\n", strings.ToUpper(p.Name), p.Number, filch.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.Name), roff(p.Short))
	for _, s := range p.Content {
		fmt.Fprintf(&b, ".SH \"%s\"\n", s.Head)
		for _, block := range s.Blocks {
			switch {
			case block.Term != "":
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(block.Term), roff(block.Text))
			case block.Asis:
				fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(block.Text))
			default:
				fmt.Fprintf(&b, ".PP\n%s\n", roff(block.Text))
			}
		}
	}
	return b.String()
}

// roff escapes a text: a line never begins with a control character, and man shows
// every sign as it is typed on a command line.
func roff(text string) string {
	escapes := strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)
	lines := strings.Split(escapes.Replace(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
