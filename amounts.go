package filch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Amounts are amounts of the resources that a site names, such as licenses:
// "license=4,scratch=100", sorted by name, no name twice, no amount 0. Most jobs take
// none. The text is the value, so amounts compare by ==.
type Amounts string

// Limits of named resources.
const (
	maxAmounts = 16 // names
	maxAmount  = 1 << 40
)

type amount struct {
	name string
	n    int64
}

// ReadAmounts reads a list NAME=N,NAME=N. NAME alone is NAME=1.
func ReadAmounts(s string) (Amounts, *Error) {
	var list []amount
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, count, given := strings.Cut(part, "=")
		n := int64(1)
		if given {
			v, err := strconv.ParseInt(count, 10, 64)
			if err != nil || v < 1 || v > maxAmount {
				return "", Errorf(Invalid, "%.80q is no amount of a resource", part).WithHint("NAME=N, with N from 1 to %d", int64(maxAmount))
			}
			n = v
		}
		if !IsLabel(name) {
			return "", Errorf(Invalid, "%.80q is no name of a resource", name).WithHint("NAME=N: a name has at most %d letters, digits, '-', '_' and '.'", MaxLabel)
		}
		if slices.ContainsFunc(list, func(a amount) bool { return a.name == name }) {
			return "", Errorf(Invalid, "the resource %s is named twice in %.80q", name, s)
		}
		list = append(list, amount{name, n})
	}
	if len(list) > maxAmounts {
		return "", Errorf(Invalid, "%d resources are too many: the most is %d", len(list), maxAmounts)
	}
	return textOf(list), nil
}

func textOf(list []amount) Amounts {
	slices.SortFunc(list, func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	var b strings.Builder
	for _, a := range list {
		if a.n == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.name + "=" + strconv.FormatInt(a.n, 10))
	}
	return Amounts(b.String())
}

// list is the amounts of a text made by textOf.
func (a Amounts) list() (list []amount) {
	for rest := string(a); rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		name, count, _ := strings.Cut(part, "=")
		n, _ := strconv.ParseInt(count, 10, 64)
		list = append(list, amount{name, n})
	}
	return list
}

// Of is the amount of the named resource, 0 for a name that a lacks.
func (a Amounts) Of(name string) int64 {
	for _, x := range a.list() {
		if x.name == name {
			return x.n
		}
	}
	return 0
}

// Names are the names of the resources.
func (a Amounts) Names() (names []string) {
	for _, n := range a.list() {
		names = append(names, n.name)
	}
	return names
}

// Check returns an error unless a is as [ReadAmounts] makes it: for amounts from outside.
func (a Amounts) Check() *Error {
	b, err := ReadAmounts(string(a))
	if err == nil && b != a {
		err = Errorf(Invalid, "the resources %.80q are not in order", string(a))
	}
	return err
}

// Without is a without the named resource.
func (a Amounts) Without(name string) Amounts {
	return textOf(slices.DeleteFunc(a.list(), func(x amount) bool { return x.name == name }))
}

// OutOf lists a beside all, the amounts of a node: "license=1/4,scratch=10/10".
func (a Amounts) OutOf(all Amounts) string {
	var parts []string
	for _, x := range all.list() {
		parts = append(parts, x.name+"="+strconv.FormatInt(a.Of(x.name), 10)+"/"+strconv.FormatInt(x.n, 10))
	}
	return strings.Join(parts, ",")
}

// Max has the larger amount of each resource.
func (a Amounts) Max(b Amounts) Amounts {
	list := a.list()
	for _, x := range b.list() {
		if i := slices.IndexFunc(list, func(y amount) bool { return y.name == x.name }); i < 0 {
			list = append(list, x)
		} else {
			list[i].n = max(list[i].n, x.n)
		}
	}
	return textOf(list)
}

// positive has the amounts of a that are more than 0.
func (a Amounts) positive() Amounts {
	return textOf(slices.DeleteFunc(a.list(), func(x amount) bool { return x.n < 0 }))
}

// Under has the amounts of b, and those of a that b does not name.
func (a Amounts) Under(b Amounts) Amounts {
	for _, x := range b.list() {
		a = a.Without(x.name)
	}
	return a.plus(b, 1)
}

// Plus is a and b together.
func (a Amounts) Plus(b Amounts) Amounts { return a.plus(b, 1) }

// plus is a and n times b.
func (a Amounts) plus(b Amounts, n int64) Amounts {
	if b == "" || n == 0 {
		return a
	}
	list := a.list()
	for _, x := range b.list() {
		x.n *= n
		if i := slices.IndexFunc(list, func(y amount) bool { return y.name == x.name }); i >= 0 {
			list[i].n += x.n
		} else {
			list = append(list, x)
		}
	}
	return textOf(list)
}

// holds reports whether b fits in a.
func (a Amounts) holds(b Amounts) bool {
	return !slices.ContainsFunc(b.list(), func(x amount) bool { return x.n > a.Of(x.name) })
}

// ReadGPUs reads a number of GPUs as thousandths: "2", or for a share of one "0.25".
func ReadGPUs(s string) (int32, *Error) {
	whole, part, shared := strings.Cut(s, ".")
	n, err := strconv.ParseUint(cmp.Or(whole, "0"), 10, 16)
	switch {
	case err != nil || whole+part == "" || len(part) > 3 || n > 0 && strings.Trim(part, "0") != "":
		return 0, notGPUs(s)
	case n > 0 || !shared:
		return int32(n) * GPU, nil
	}
	m, err := strconv.ParseUint((part + "000")[:3], 10, 16)
	if err != nil {
		return 0, notGPUs(s)
	}
	return int32(m), nil
}

func notGPUs(s string) *Error {
	return Errorf(Invalid, "%.40q is no number of GPUs", s).WithHint("a number of whole GPUs, or for a share of one GPU 0.001 to 0.999")
}

// FormatGPUs writes thousandths of GPUs as [ReadGPUs] reads them.
func FormatGPUs(n int32) string {
	s := strconv.FormatInt(int64(n/GPU), 10)
	if n%GPU == 0 {
		return s
	}
	return s + "." + strings.TrimRight(strconv.FormatInt(int64(GPU+n%GPU), 10)[1:], "0")
}
