package workflow

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"
)

// WriteDot writes the graph in the language of Graphviz: a box for each task, colored by
// the task's kind, an arrow for each edge, dashed for an edge without data, and thick for
// an edge on the critical path.
func (g *Graph) WriteDot(w io.Writer) error {
	b := bufio.NewWriter(w)
	critical := map[edge]bool{}
	m := g.Measure()
	for i := 1; i < len(m.Chain); i++ {
		critical[edge{m.Chain[i-1], m.Chain[i]}] = true
	}
	fmt.Fprintf(b, "digraph %s {\n\trankdir=TB\n\tnode [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"]\n", dotString(g.Name))
	for i := range g.Tasks {
		t := &g.Tasks[i]
		label := dotEscape(t.Name)
		if t.Kind != "" && t.Kind != t.Name {
			label += `\n` + dotEscape(t.Kind)
		}
		if t.Cost > 0 {
			label += `\n` + dotEscape(t.Cost.Round(time.Microsecond).String())
		}
		fmt.Fprintf(b, "\tt%d [label=\"%s\", fillcolor=\"%s\"]\n", i, label, dotColor(t.Kind))
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		data := map[int32]bool{}
		for _, f := range t.Inputs {
			data[g.Files[f].Writer] = true
		}
		for _, p := range t.Parents {
			var style []string
			if !data[p] {
				style = append(style, "style=dashed")
			}
			if critical[edge{p, int32(i)}] {
				style = append(style, "penwidth=3")
			}
			fmt.Fprintf(b, "\tt%d -> t%d", p, i)
			if style != nil {
				fmt.Fprintf(b, " [%s]", strings.Join(style, ", "))
			}
			_ = b.WriteByte('\n')
		}
	}
	_, _ = b.WriteString("}\n")
	return b.Flush()
}

func dotString(s string) string { return `"` + dotEscape(s) + `"` }

// dotEscape writes a name so that the name neither ends the string nor contains an escape
// of Graphviz.
func dotEscape(s string) string {
	return visible(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s))
}

// dotColor is a light color, the same for every task of a kind.
func dotColor(kind string) string {
	if kind == "" {
		return "#f4f4f4"
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind))
	return fmt.Sprintf("%.3f 0.22 0.97", float64(h.Sum32()%1000)/1000)
}
