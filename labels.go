package filch

import (
	"slices"
	"strings"
)

// Limits of labels and of named resources.
const (
	maxLabels     = 32  // of a node
	MaxLabel      = 63  // bytes of a label, and of a resource's name
	MaxConstraint = 512 // bytes of a constraint
	maxDepth      = 16  // nested parentheses of a constraint
)

// Labels are the labels of a node: sorted, each once, with commas between them. A label
// has letters, digits, '-', '_' and '.'.
type Labels string

// ReadLabels reads a list with commas or spaces between the labels.
func ReadLabels(s string) (Labels, *Error) {
	list := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(list)
	list = slices.Compact(list)
	for _, l := range list {
		if !IsLabel(l) {
			return "", Errorf(Invalid, "%.80q is no label", l).WithHint("a label has at most %d letters, digits, '-', '_' and '.'", MaxLabel)
		}
	}
	if len(list) > maxLabels {
		return "", Errorf(Invalid, "%d labels are too many for a node: the most is %d", len(list), maxLabels)
	}
	return Labels(strings.Join(list, ",")), nil
}

// With are the labels of l and those of m.
func (l Labels) With(m Labels) Labels {
	switch {
	case m == "":
		return l
	case l == "":
		return m
	}
	list := append(strings.Split(string(l), ","), strings.Split(string(m), ",")...)
	slices.Sort(list)
	return Labels(strings.Join(slices.Compact(list), ","))
}

// Has reports whether label is one of l.
func (l Labels) Has(label string) bool {
	for rest := string(l); rest != ""; {
		var next string
		next, rest, _ = strings.Cut(rest, ",")
		if next == label {
			return true
		}
	}
	return false
}

// IsLabel reports whether s can be a label, or the name of a resource.
func IsLabel(s string) bool {
	return s != "" && len(s) <= MaxLabel && strings.Trim(s, labelBytes) == ""
}

const labelBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// Constraint says by labels which nodes a job or task may use, as srun -C does:
// "a100", "a100&bigmem", "(a100|v100)&!slow"; a comma is &. "" allows every node.
type Constraint string

// ReadConstraint checks a constraint.
func ReadConstraint(s string) (Constraint, *Error) {
	if len(s) > MaxConstraint {
		return "", Errorf(Invalid, "a constraint of %d bytes is too long: the most is %d", len(s), MaxConstraint)
	}
	p := constraintParser{rest: s}
	p.either(0)
	if p.rest = strings.TrimLeft(p.rest, " "); p.bad || p.rest != "" {
		return "", Errorf(Invalid, "cannot read the constraint %.80q at byte %d", s, len(s)-len(p.rest)+1).
			WithHint("labels joined by & (and), | (or), with ! (not) and parentheses: 'a100&!slow'")
	}
	return Constraint(strings.TrimSpace(s)), nil
}

// Allows reports whether a node with these labels may be used. A constraint that cannot
// be read allows no node.
func (c Constraint) Allows(l Labels) bool {
	if c == "" {
		return true
	}
	p := constraintParser{rest: string(c), labels: l}
	ok := p.either(0)
	return ok && !p.bad
}

// And is the constraint that allows what both allow.
func (c Constraint) And(d Constraint) Constraint {
	switch {
	case c == "":
		return d
	case d == "":
		return c
	}
	return "(" + c + ")&(" + d + ")"
}

// constraintParser evaluates a constraint from left to right: either is terms joined by
// |, each term is factors joined by &.
type constraintParser struct {
	rest   string
	labels Labels
	bad    bool
}

// next takes one of the bytes off the text, if the text begins with one after spaces.
func (p *constraintParser) next(bytes string) bool {
	p.rest = strings.TrimLeft(p.rest, " ")
	if p.rest == "" || strings.IndexByte(bytes, p.rest[0]) < 0 {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *constraintParser) either(depth int) bool {
	ok := p.both(depth)
	for p.next("|") {
		ok = p.both(depth) || ok
	}
	return ok
}

func (p *constraintParser) both(depth int) bool {
	ok := p.factor(depth)
	for p.next("&,") {
		ok = p.factor(depth) && ok
	}
	return ok
}

func (p *constraintParser) factor(depth int) bool {
	switch {
	case p.bad || depth > maxDepth:
		p.bad = true
		return false
	case p.next("!"):
		return !p.factor(depth + 1)
	case p.next("("):
		ok := p.either(depth + 1)
		p.bad = !p.next(")") || p.bad
		return ok
	}
	label := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, labelBytes))]
	p.rest = p.rest[len(label):]
	p.bad = !IsLabel(label)
	return p.labels.Has(label)
}

// Nodes says which nodes a job or task may use. The zero Nodes allows every node.
type Nodes struct {
	Only    []NodeName // -w; none: any
	Exclude []NodeName // -x
	Labels  Constraint // -C
}

// With are the nodes of n that have the labels, too; nil is every node.
func (n *Nodes) With(labels Constraint) *Nodes {
	if labels == "" {
		return n
	}
	if n == nil {
		n = &Nodes{}
	}
	n.Labels = n.Labels.And(labels)
	return n
}

// Allows reports whether a node may be used.
func (n *Nodes) Allows(m *Member) bool {
	return (len(n.Only) == 0 || slices.Contains(n.Only, m.Name)) && !slices.Contains(n.Exclude, m.Name) && n.Labels.Allows(m.Labels)
}
