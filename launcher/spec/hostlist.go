package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Limits on a hostlist, checked before making any name.
const (
	MaxHosts         = 1 << 16
	MaxHostlistBytes = 1 << 20
	maxBrackets      = 3 // per name: rack, chassis and node
	maxHostDigits    = 15
	maxNameBytes     = 63
)

// Hosts expands a hostlist like n[1-3,7],m4 as Slurm does: in the order given, the last
// bracket of a name fastest, numbers as wide as the first of their range. Each name is
// returned once. Hosts counts the names before making any name.
func Hosts(s string) ([]filch.NodeName, error) {
	if s == "" || len(s) > MaxHostlistBytes {
		return nil, invalid("a node list of %d bytes", len(s))
	}
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i]) && s[i] != '[' && s[i] != ']' && s[i] != ',' {
			return nil, invalid("node list %s: no node name holds %q", clip(s), s[i])
		}
	}
	var patterns []hostPattern
	total := 0
	for _, text := range splitHosts(s) {
		p, err := parseHost(text)
		if err != nil {
			return nil, invalid("node list %s: %v", clip(s), err)
		}
		if name := p.first(); len(name) > maxNameBytes {
			return nil, invalid("node list %s: %s is not a node name", clip(s), clip(name))
		}
		patterns = append(patterns, p)
		total = min(total+p.count(), MaxHosts+1)
	}
	if total > MaxHosts {
		return nil, invalid("node list %s names more than %d nodes", clip(s), MaxHosts)
	}
	hosts := make([]filch.NodeName, 0, total)
	seen := make(map[string]bool, total)
	for _, p := range patterns {
		for _, name := range p.names() {
			if name == "" || len(name) > maxNameBytes {
				return nil, invalid("node list %s: %s is not a node name", clip(s), clip(name))
			}
			if !seen[name] {
				seen[name] = true
				hosts = append(hosts, filch.NodeName(name))
			}
		}
	}
	return hosts, nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// hostPattern is one name of a hostlist: texts with a bracket between each two, so
// there is one text more than brackets.
type hostPattern struct {
	texts    []string
	brackets [][]hostRange
}

// hostRange is the numbers from first to last, written with width digits at least.
type hostRange struct {
	first, last int64
	width       int
}

// parseHost reads one name without a comma outside of brackets.
func parseHost(s string) (hostPattern, error) {
	var p hostPattern
	for {
		text, rest, found := strings.Cut(s, "[")
		if strings.Contains(text, "]") {
			return p, invalid("a ] without its [")
		}
		p.texts = append(p.texts, text)
		if !found {
			break
		}
		group, after, closed := strings.Cut(rest, "]")
		if !closed {
			return p, invalid("a [ without its ]")
		}
		ranges, err := parseBracket(group)
		if err != nil {
			return p, err
		}
		p.brackets, s = append(p.brackets, ranges), after
	}
	if len(p.brackets) > maxBrackets {
		return p, invalid("more than %d [...] in one name", maxBrackets)
	}
	return p, nil
}

// parseBracket reads the contents of one bracket: numbers and ranges of numbers.
func parseBracket(group string) ([]hostRange, error) {
	var ranges []hostRange
	for part := range strings.SplitSeq(group, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		if !digits(low) || !digits(high) || len(low) > maxHostDigits || len(high) > maxHostDigits {
			return nil, invalid("%s is not a range of numbers", clip(part))
		}
		first, _ := strconv.ParseInt(low, 10, 64)
		last, _ := strconv.ParseInt(high, 10, 64)
		if last < first || len(high) > len(low) && high[0] == '0' {
			return nil, invalid("the range %s goes down", part)
		}
		ranges = append(ranges, hostRange{first, last, len(low)})
	}
	return ranges, nil
}

// count returns the number of names of p; MaxHosts+1 means any larger number.
func (p hostPattern) count() int {
	product := int64(1)
	for _, ranges := range p.brackets {
		sum := int64(0)
		for _, r := range ranges {
			sum = min(sum+r.last-r.first+1, MaxHosts+1)
		}
		product = min(product*sum, MaxHosts+1)
	}
	return int(product)
}

// first makes the first name of p.
func (p hostPattern) first() string {
	var name strings.Builder
	name.WriteString(p.texts[0])
	for i, ranges := range p.brackets {
		name.WriteString(host{number: ranges[0].first, width: ranges[0].width}.digits() + p.texts[i+1])
	}
	return name.String()
}

// names makes the names of p, at most [MaxHosts].
func (p hostPattern) names() []string {
	names := []string{p.texts[0]}
	for i, ranges := range p.brackets {
		longer := make([]string, 0, len(names))
		for _, name := range names {
			for _, r := range ranges {
				for n := r.first; n <= r.last; n++ {
					longer = append(longer, name+host{number: n, width: r.width}.digits()+p.texts[i+1])
				}
			}
		}
		names = longer
	}
	return names
}

// splitHosts cuts s at the commas outside of brackets.
func splitHosts(s string) []string {
	var names []string
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				names, from = append(names, s[from:i]), i+1
			}
		}
	}
	return append(names, s[from:])
}

// clip quotes s for a message of one line.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// FormatHosts writes names as a hostlist for [Hosts], as short as Slurm does: names
// that differ only in a trailing number share a bracket. The result names the same set,
// sorted by prefix and number.
func FormatHosts(names []filch.NodeName) string {
	type width struct {
		prefix string
		digits int
	}
	padded := make(map[width]bool)
	hosts := make([]host, len(names))
	for i, name := range names {
		hosts[i] = cutHost(string(name))
		if h := hosts[i]; h.padded() {
			padded[width{h.prefix, h.width}] = true
		}
	}
	for i, h := range hosts {
		if h.width > 1 && !padded[width{h.prefix, h.width}] {
			hosts[i].width = 1
		}
	}
	slices.SortFunc(hosts, host.compare)
	hosts = slices.Compact(hosts)
	var b strings.Builder
	for len(hosts) > 0 {
		n := 1
		for n < len(hosts) && hosts[n].prefix == hosts[0].prefix && hosts[n].width == hosts[0].width {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		writeGroup(&b, hosts[:n])
		hosts = hosts[n:]
	}
	return b.String()
}

// host is a name cut before its trailing number.
type host struct {
	prefix string
	width  int // the fewest digits to write: 1 without padding, 0 no number
	number int64
}

func cutHost(name string) host {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' && len(name)-i < maxHostDigits {
		i--
	}
	if i == len(name) {
		return host{prefix: name}
	}
	n, _ := strconv.ParseInt(name[i:], 10, 64)
	return host{name[:i], len(name) - i, n}
}

func (h host) compare(o host) int {
	if c := strings.Compare(h.prefix, o.prefix); c != 0 {
		return c
	}
	if h.width != o.width {
		return h.width - o.width
	}
	return int(min(max(h.number-o.number, -1), 1))
}

// padded reports whether the number was written with leading zeros.
func (h host) padded() bool { return h.width > len(strconv.FormatInt(h.number, 10)) }

func (h host) digits() string {
	s := strconv.FormatInt(h.number, 10)
	return strings.Repeat("0", max(0, h.width-len(s))) + s
}

func writeGroup(b *strings.Builder, hosts []host) {
	b.WriteString(hosts[0].prefix)
	if hosts[0].width == 0 {
		return
	}
	if len(hosts) == 1 {
		b.WriteString(hosts[0].digits())
		return
	}
	b.WriteByte('[')
	for i := 0; i < len(hosts); {
		j := i
		for j+1 < len(hosts) && hosts[j+1].number == hosts[j].number+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(hosts[i].digits())
		if j > i {
			b.WriteByte('-')
			b.WriteString(hosts[j].digits())
		}
		i = j + 1
	}
	b.WriteByte(']')
}
