package papers

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Cell is a cell of a table: a text, and the number of the run that the text comes from; 0: from none.
type Cell struct {
	Text string
	Run  int
}

// said is a cell that comes from no run.
func said(format string, a ...any) Cell { return Cell{Text: fmt.Sprintf(format, a...)} }

// Table is a table.
type Table struct {
	Columns []string
	Rows    [][]Cell
}

func (t *Table) add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Quote is a figure of a paper, and its place.
type Quote struct{ Text, Source string }

// Section is a figure or a table of a paper, beside ours.
type Section struct {
	ID     string
	Title  string
	Lines  string // of the list of lines
	Theirs []Quote
	Tables []Table
	Plots  []Plot
	Note   string
}

// Page is the whole page.
type Page struct {
	Title    string
	Preface  []string
	Sections []Section
	Runs     []string
	Failed   []string
	Lines    []Line
}

const runCommand = "go run ./testbed/sim/papers/cmd -run "

// Write writes a page into a folder: README.md, index.html, and a file for each plot.
func (p *Page) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{"README.md": p.markdown(), "index.html": p.html()}
	for _, s := range p.Sections {
		for i := range s.Plots {
			files[s.plotFile(i)] = s.Plots[i].svg()
		}
	}
	for name, text := range files { // any order
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s *Section) plotFile(i int) string { return fmt.Sprintf("%s-%d.svg", s.ID, i+1) }

func (p *Page) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", p.Title)
	for _, text := range p.Preface {
		fmt.Fprintf(&b, "%s\n\n", text)
	}
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "## %s\n\nLines %s of [the list](#the-89-lines).\n\n", s.Title, s.Lines)
		for _, q := range s.Theirs {
			fmt.Fprintf(&b, "- Theirs: %s (%s).\n", q.Text, q.Source)
		}
		fmt.Fprintln(&b)
		for i := range s.Tables {
			s.Tables[i].markdown(&b)
		}
		for i := range s.Plots {
			fmt.Fprintf(&b, "![%s](%s)\n\n", s.Plots[i].Title, s.plotFile(i))
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", s.Note)
		}
	}
	fmt.Fprintf(&b, "## Runs\n\nThe number behind a figure is that of its run. `%s'NAME'` repeats a run; its seed is in its name.\n\n", runCommand)
	for i, name := range p.Runs {
		fmt.Fprintf(&b, "%d. `%s`\n", i+1, name)
	}
	if len(p.Failed) > 0 {
		fmt.Fprint(&b, "\nWithout a result:\n\n")
		for _, f := range p.Failed {
			fmt.Fprintf(&b, "- %s\n", f)
		}
	}
	fmt.Fprint(&b, "\n## The 89 lines\n\nWhat the papers contain, and where filch has it. \"Replaced\" has its reason in ARCHITECTURE.md or in the file named.\n\n")
	counts := tableOfCounts(p.Lines)
	counts.markdown(&b)
	all := tableOfLines(p.Lines)
	all.markdown(&b)
	return b.String()
}

func (t *Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, c := range row {
			fmt.Fprintf(b, " %s%s |", strings.ReplaceAll(c.Text, "|", "\\|"), c.mark("<sup>%d</sup>"))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// mark is the number of the run of a cell.
func (c Cell) mark(format string) string {
	if c.Run == 0 {
		return ""
	}
	return fmt.Sprintf(format, c.Run)
}

const style = `body{font:16px/1.5 sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left}
td{font-variant-numeric:tabular-nums}sup a{text-decoration:none}.theirs{color:#555}code{font-size:13px}svg{max-width:100%;height:auto}`

func (p *Page) html() string {
	var b strings.Builder
	esc := html.EscapeString
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title><style>%s</style></head><body>\n<h1>%[1]s</h1>\n", esc(p.Title), style)
	for _, text := range p.Preface {
		fmt.Fprintf(&b, "<p>%s</p>\n", esc(text))
	}
	for _, s := range p.Sections {
		fmt.Fprintf(&b, "<h2 id=\"%s\">%s</h2>\n<p>Lines %s of <a href=\"#lines\">the list</a>.</p>\n<ul class=\"theirs\">\n", s.ID, esc(s.Title), esc(s.Lines))
		for _, q := range s.Theirs {
			fmt.Fprintf(&b, "<li>Theirs: %s (%s).</li>\n", esc(q.Text), esc(q.Source))
		}
		b.WriteString("</ul>\n")
		for i := range s.Tables {
			s.Tables[i].html(&b)
		}
		for i := range s.Plots {
			b.WriteString(s.Plots[i].svg())
		}
		if s.Note != "" {
			fmt.Fprintf(&b, "<p>%s</p>\n", esc(s.Note))
		}
	}
	fmt.Fprintf(&b, "<h2>Runs</h2>\n<p>The number behind a figure is that of its run. <code>%s'NAME'</code> repeats a run; its seed is in its name.</p>\n<ol>\n", esc(runCommand))
	for i, name := range p.Runs {
		fmt.Fprintf(&b, "<li id=\"run%d\"><code>%s</code></li>\n", i+1, esc(name))
	}
	b.WriteString("</ol>\n")
	if len(p.Failed) > 0 {
		b.WriteString("<p>Without a result:</p>\n<ul>\n")
		for _, f := range p.Failed {
			fmt.Fprintf(&b, "<li>%s</li>\n", esc(f))
		}
		b.WriteString("</ul>\n")
	}
	b.WriteString("<h2 id=\"lines\">The 89 lines</h2>\n")
	counts := tableOfCounts(p.Lines)
	counts.html(&b)
	all := tableOfLines(p.Lines)
	all.html(&b)
	b.WriteString("</body></html>\n")
	return b.String()
}

func (t *Table) html(b *strings.Builder) {
	b.WriteString("<table><tr>")
	for _, c := range t.Columns {
		fmt.Fprintf(b, "<th>%s</th>", html.EscapeString(c))
	}
	b.WriteString("</tr>\n")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for _, c := range row {
			fmt.Fprintf(b, "<td>%s%s</td>", html.EscapeString(c.Text), c.mark("<sup><a href=\"#run%[1]d\">%[1]d</a></sup>"))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
}

// Make makes the page of a size from the runs of a book. where says which sources ran.
func Make(b *Book, z Size, where string) (*Page, error) {
	lines, err := Lines()
	if err != nil {
		return nil, err
	}
	p := &Page{Title: "The figures of the papers, and ours", Lines: lines}
	for _, make := range sections {
		p.Sections = append(p.Sections, make(b, z))
	}
	p.Runs, p.Failed = b.names, b.failed()
	p.Preface = []string{
		"Five papers propose what filch does: MATRIX v1 and MATRIX v2 (adaptive and data-aware work stealing), ADAGE (workflows), CloudKon (a queue in a cloud), and DVS (ordered victims). This page has their figures that the simulators can run: what the papers print, what filch does, and what their rivals do. All our times are virtual: the shipped cores, or the flat model that is held to these within 3 % (testbed/sim/flat), on a network with 20 to 80 us one way. A start of a process takes no time there; `make bench` and `make proof` measure real starts.",
		fmt.Sprintf("`make papers SIZE=%s OUT=DIR` made this page: %d runs in %v of CPU time, %s.", z.Name, len(p.Runs), b.took.Round(time.Second), where),
		"Baselines are in testbed/sim/baseline. The comment of that package says which cost of each is fitted to which figure; other figures follow.",
	}
	return p, nil
}
