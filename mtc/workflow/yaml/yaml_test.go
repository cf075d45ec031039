package yaml

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: b\nc:\n- d\n- e: f\n  g: h\n-\n- - j\n  - k\n", "{\"a\":\"b\",\n\"c\":\n[\"d\",\n{\"e\":\"f\",\n\"g\":\"h\"},\nnull,\n[\"j\",\n\"k\"]]}\n"},
		{"a: 1\nb: 010\nc: 1e3\nd: true\ne: True\nf: ~\ng: '1'\nh: yes\ni: 0x10\nj: -1.5\nk: 1_0\nl: .5\n", "{\"a\":1,\n\"b\":\"010\",\n\"c\":1e3,\n\"d\":true,\n\"e\":\"True\",\n\"f\":null,\n\"g\":\"1\",\n\"h\":\"yes\",\n\"i\":\"0x10\",\n\"j\":-1.5,\n\"k\":\"1_0\",\n\"l\":\".5\"}\n"},
		{"# c\n\na: |\n  x\n   y\n\nb: >-\n  one\n  two\n", "\n\n{\"a\":\"x\\u000a y\\u000a\",\n\n\n\n\"b\":\"one two\"}\n"},
		{"a: {b: [c, d],\n  e: }\n", "{\"a\":{\"b\":[\"c\",\"d\"],\n\"e\":null}}\n"},
		{"a: one\n  two\nb: \"q\\\"\\\\\\0\\u00e9\"\r\n", "{\"a\":\"one two\",\n\n\"b\":\"q\\\"\\\\\\u0000\u00e9\"}\n"},
		{"a: b\na: c\n", "{\"a\":\"b\",\n\"a\":\"c\"}\n"},
		{"a: b\r", "{\"a\":\"b\"}\n"},
		{"---\ntext\n", "\n\"text\"\n"},
	} {
		got, line, err := JSON([]byte(c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("%q:\n got %q, %d, %v\nwant %q", c.text, got, line, err, c.want)
		}
	}
}

// What is wrong is said with its line.
func TestErrors(t *testing.T) {
	filler := strings.Repeat("k: [a,\n  b]\n", 20)
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{"", 0, "it is empty"},
		{"# c\n", 0, "it is empty"},
		{"---\n", 0, "it is empty"},
		{"x: 1\na: &x b", 2, "anchors, aliases and tags"},
		{"x: 1\na: *x\n", 2, "anchors, aliases and tags"},
		{"x: 1\na: !t b\n", 2, "anchors, aliases and tags"},
		{"x: 1\na: !e!t b\n", 2, "anchors, aliases and tags"},
		{"x: 1\n&k a: b\n", 2, "anchors, aliases and tags"},
		{"x: 1\n<<: {a: b}\n", 2, `"<<" cannot be a key`},
		{"x: 1\n? [a]\n: b\n", 2, "a list or a map cannot be a key"},
		{"a: b\n---\nc: d\n", 2, "a second document: a file holds one workflow"},
		{"a: b\n---\nc: d: e\n", 3, "a colon where none can stand"},
		{"a: b: c\n", 1, "a colon where none can stand: text with a colon and a blank needs quotes"},
		{"x: 1\ny: 2\n  z: 3\n", 3, "a colon where none can stand"},
		{"a: [b\n", 1, "a bracket is not closed"},
		{"a: [b\nc: d\n", 1, "a bracket is not closed"},
		{"x: 1\na: [b\nc: d\ne: f\n", 2, "a bracket is not closed"},
		{"x: 1\na: {b c\nd: e}\n", 2, "or a comma is missing"},
		{"x: 1\na: \"b\nc: d\n", 2, "the quotes are not closed"},
		{"a: 'it's'\nb: c\n", 1, "something follows the end of a value"},
		{"a: [b, c]]\nd: e\n", 1, "something follows the end of a value"},
		{"a:\n  b: c\n d: e", 3, "this line is not indented like those before it"},
		{"a: |\n  x\n y\nb: c\n", 3, "this line is not indented like those before it"},
		{"x: 1\ntasks:\n  t:\n    run: x\n   cpus: 2\n  u:\n    run: y\n", 5, "this line is not indented like those before it"},
		{filler + "y:\n    z: 3\n   w: 4\nv: 5\n", 43, "this line is not indented like those before it"},
		{"a: b\n- c\n", 2, "this line is not indented like those before it"},
		{"x:\n  - a\n  b: c\n", 3, "a key among the items of a list"},
		{"a: - b\n", 1, "an item of a list where none can stand"},
		{"x: 1\ny\nz: 3\n", 2, "a key with a colon and a blank behind it is missing"},
		{"a: 1\ntasks:\n\t- x", 3, "it begins with a tab"},
		{"x: 1\na: @b\n", 2, "a character that needs quotes"},
		{"x: 1\na: \"\\q\"\n", 2, "what follows a \\ is not part of it"},
		{"x: 1\na: \x00\n", 2, "there is a control character in it"},
		{"x: 1\na: b\rc: d\n", 2, "there is a control character in it"},
		{"x: 1\na: \u0085\n", 2, "there is a control character in it"},
		{"x: 1\na: \xff\n", 2, "this is no UTF-8"},
		{strings.Repeat("[", 20000), 1, "values are nested too deep"},
		{strings.Repeat("- ", 20000), 1, "values are nested too deep"},
		{strings.Repeat("x", TextMax+1), 0, "it has more than 64 MiB"},
		{"a\n" + strings.Repeat(",", MarksMax), 2, "too many values"},
	} {
		short := c.text[:min(len(c.text), 80)]
		_, line, err := JSON([]byte(c.text))
		if err == nil || line != c.line || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got line %d, %v; want line %d, %s", short, line, err, c.line, c.want)
		}
	}
}

// A few lines of aliases that stand for a billion values cost nothing.
func TestAliasesAreNotFollowed(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	if _, line, err := JSON([]byte(b.String())); err == nil || line != 1 || !strings.Contains(err.Error(), "anchors") {
		t.Errorf("got line %d, %v", line, err)
	}
}

// FuzzJSON holds the JSON against the YAML: the same values on the same lines.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		"a: b\nc:\n- d\n- e: f\n  g: h\n-\n  - i\n  -\n- - j\n  - k\nl:\n  m: n # comment\n  'o p': \"q\\tr\\u00e9\"\n",
		"a: |\n  one\n   two\n\n  three\n\nb: |-\n  x\n\n\nc: >+\n  y\n\nd: z\n",
		"a: [b, 'c d', \"e\", [f, {g: h, \"i\":j, k: }], ]\nb: {}\nc: []\n",
		"---\n# c\na: http://x/y?z=1&2\nb: a#b\nc: 'it''s'\n",
		"a: -1\nb: 1.5e3\nc: ~\nd: null\ne: true\nf: -x\ng: 0o7\nh: 2001-01-01\n",
		"? a\n: b\n", "a:\r\n  - b\r\n", "a: &x [b]\nc: *x\n", "a: !!str b\n", "a: b\n c\n\n d\ne: f", "'a\n  b': c",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, line, err := JSON([]byte(text))
		if err != nil {
			if line < 0 || line > 1+strings.Count(text, "\n") {
				t.Fatalf("%q: line %d: %v", text, line, err)
			}
			return
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		r := &reader{t: t, text: got, dec: json.NewDecoder(strings.NewReader(string(got)))}
		r.dec.UseNumber()
		r.same(doc.Content[0])
	})
}

// reader compares JSON with the YAML of which it was made.
type reader struct {
	t    *testing.T
	text []byte
	dec  *json.Decoder
}

// token returns the next token and the line on which it ends, which is where it begins.
func (r *reader) token() (json.Token, int) {
	tok, err := r.dec.Token()
	if err != nil {
		r.t.Fatalf("%q: %v", r.text, err)
	}
	return tok, 1 + strings.Count(string(r.text[:r.dec.InputOffset()]), "\n")
}

func (r *reader) same(n *yaml.Node) {
	tok, line := r.token()
	if line != n.Line {
		r.t.Fatalf("%q: line %d, should be %d", r.text, line, n.Line)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			r.same(item)
		}
		r.token()
	case yaml.MappingNode:
		for i, item := range n.Content {
			if i%2 == 1 {
				r.same(item)
			} else if key, line := r.token(); key != item.Value || line != item.Line {
				r.t.Fatalf("%q: key %q on line %d, should be %q on %d", r.text, key, line, item.Value, item.Line)
			}
		}
		r.token()
	default:
		if null := n.ShortTag() == "!!null"; null != (tok == nil) || !null && fmt.Sprint(tok) != n.Value {
			r.t.Fatalf("%q: %v, should be %q", r.text, tok, n.Value)
		}
	}
}
