package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// sameYAML holds what was read against a reader of all of YAML: whatever is
// taken here must be YAML, and mean the same.
func sameYAML(t *testing.T, text string) {
	t.Helper()
	n, err := (&tree{src: source{"f"}}).yaml([]byte(text))
	if err != nil {
		return
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("taken, and no YAML: %q: %v", text, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		t.Fatalf("taken, and two documents, or none: %q: %v", text, err)
	}
	if why := unlike(&n, doc.Content[0]); why != "" {
		t.Fatalf("%s: %q", why, text)
	}
}

func unlike(n *node, y *yaml.Node) string {
	where := fmt.Sprintf("line %d: ", n.line)
	if tag := y.ShortTag(); (n.shape == shapeNull) != (tag == "!!null") || (n.shape == shapeList) != (y.Kind == yaml.SequenceNode) || (n.shape == shapeMap) != (y.Kind == yaml.MappingNode) {
		return fmt.Sprintf("%sis %v, should be %s", where, n.shape, tag)
	}
	switch n.shape {
	case shapeNull:
		return ""
	case shapeList:
		if len(n.items) != len(y.Content) {
			return fmt.Sprintf("%s%d items, should be %d", where, len(n.items), len(y.Content))
		}
		for i := range n.items {
			if why := unlike(&n.items[i], y.Content[i]); why != "" {
				return why
			}
		}
		return ""
	case shapeMap:
		if len(n.pairs) != len(y.Content)/2 {
			return fmt.Sprintf("%s%d pairs, should be %d", where, len(n.pairs), len(y.Content)/2)
		}
		for i, p := range n.pairs {
			if k := y.Content[2*i]; k.Value != p.key || k.Line != p.line {
				return fmt.Sprintf("line %d: key %q, should be %q on line %d", p.line, p.key, k.Value, k.Line)
			}
			if why := unlike(&p.value, y.Content[2*i+1]); why != "" {
				return why
			}
		}
		return ""
	}
	if n.text != y.Value || n.line != y.Line {
		return fmt.Sprintf("%s%q, should be %q on line %d", where, n.text, y.Value, y.Line)
	}
	return ""
}

var yamlSamples = []string{
	mosaic,
	"a: b\nc:\n- d\n- e: f\n  g: h\n-\n  - i\n  -\n- - j\n  - k\nl:\n  m: n # comment\n  'o p': \"q\\tr\\u00e9\"\n",
	"a: |\n  one\n   two\n\n  three\n\nb: |-\n  x\n\n\nc: |+\n  y\n\nd: z\n",
	"- |\n a\n- |-\n  b\n- c\n",
	"a: [b, 'c d', \"e\", [f, {g: h, \"i\":j, k: }], ]\nb: {}\nc: []\n",
	"a: [\n  b, # x\n  # y\n  c\n]\nd: e\n",
	"---\n# c\na: http://x/y?z=1&2\nb: a#b\nc: 'it''s'\n",
	"a: -1\nb: 1.5e3\nc: ~\nd: null\ne: true\nf: -x\n",
	"x: {a: http://b:8, c: d}\n",
	"\"a b\" : c\n",
	"a:\r\n  - b\r\n",
	"text\n", "- a\n", "[a, b]\n", "\"a\"\n", "'a': b", "a: |\n  x",
}

func TestYAML(t *testing.T) {
	for _, text := range yamlSamples {
		if _, err := (&tree{src: source{"f"}}).yaml([]byte(text)); err != nil && text != "a: |\n  x" {
			t.Errorf("%q: %v", text, err)
		}
		sameYAML(t, text)
	}
	for text, want := range map[string]string{
		"a: &x b":           "anchors, aliases and tags",
		"a: >\n  x\n":       "folded text (>)",
		"a: b\n  c\n":       "f:2: this is no YAML of this form: text that goes on over several lines needs |",
		"a: b: c":           "needs quotes",
		"a: 'b\n  c'":       "f:1: this is no YAML of this form: the quotes are not closed on this line",
		"a: [b\n":           "a bracket is not closed",
		"a:\n  b: c\n d: e": "f:3: this is no YAML of this form: this line is not indented like those before it",
		"a: b\n- c":         "an item of a list among the keys of a map",
		"? a\n: b":          "needs quotes",
		"a:\tb":             "a tab",
		"a: [b c: d]":       "a comma or",
		"a: b\n---\nc: d":   "f:2: a second document",
		"a: |2\n   x\n":     "|2 is not part of it",
		"%YAML 1.2\n---\n":  "directives",
		"a: \"\\q\"":        "is not part of it",
		"\x00":              "control character",
		"a: {b}":            "has no colon",
	} {
		if _, err := (&tree{src: source{"f"}}).yaml([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzYAML(f *testing.F) {
	for _, text := range yamlSamples {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if bytes.Count([]byte(text), []byte("\n")) < 1000 {
			sameYAML(t, text)
		}
	})
}
