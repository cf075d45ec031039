package workflow

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// shape is the type of a node.
type shape uint8

const (
	shapeNull shape = iota
	shapeBool
	shapeNumber
	shapeText
	shapeList
	shapeMap
)

func (s shape) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a map"}[s]
}

// node is a value of a JSON text, with its line.
type node struct {
	shape shape
	text  string // of a scalar, as written
	line  int
	items []node  // of a list
	pairs []entry // of a map, in the order of the text, no key twice
}

type entry struct {
	key   string
	line  int
	value node
}

// nodesMax bounds a tree: the most that a text of [NativeMax] can need.
const nodesMax = 8 << 20

// tree turns a text into nodes.
type tree struct {
	src   source
	count int
}

func (t *tree) grow(line, depth int) error {
	if t.count++; t.count > nodesMax {
		return t.src.errorf(line, "too many values: at most %d", nodesMax)
	}
	if depth > NestingMax {
		return t.src.errorf(line, "values are nested more than %d deep", NestingMax)
	}
	return nil
}

// json reads a JSON value.
func (t *tree) json(j *jsonText, depth int) (node, error) {
	n := node{line: j.here()}
	if err := t.grow(n.line, depth); err != nil {
		return n, err
	}
	tok, err := j.dec.Token()
	if err != nil {
		return n, j.explain(err, n.line)
	}
	switch tok := tok.(type) {
	case nil:
	case bool:
		n.shape, n.text = shapeBool, strconv.FormatBool(tok)
	case json.Number:
		n.shape, n.text = shapeNumber, tok.String()
	case string:
		n.shape, n.text = shapeText, tok
	case json.Delim:
		for tok == '[' && j.dec.More() {
			item, err := t.json(j, depth+1)
			if err != nil {
				return n, err
			}
			n.items = append(n.items, item)
		}
		seen := map[string]int{}
		for tok == '{' && j.dec.More() {
			line := j.here()
			key, err := j.dec.Token()
			if err != nil {
				return n, j.explain(err, line)
			}
			if err := t.pair(&n, seen, fmt.Sprint(key), line, func() (node, error) { return t.json(j, depth+1) }); err != nil {
				return n, err
			}
		}
		if n.shape = shapeList; tok == '{' {
			n.shape = shapeMap
		}
		if err := j.close(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// pair adds a key with its value; a key may occur only once.
func (t *tree) pair(n *node, seen map[string]int, key string, line int, value func() (node, error)) error {
	if first, twice := seen[key]; twice {
		return t.src.errorf(line, "%s is there twice: also on line %d", quote(key), first)
	}
	seen[key] = line
	v, err := value()
	n.pairs = append(n.pairs, entry{key, line, v})
	return err
}
