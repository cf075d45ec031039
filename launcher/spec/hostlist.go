package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/puttsk/hostlist"
)

// Limits on a hostlist, checked before it is expanded.
const (
	MaxHosts         = 1 << 16
	MaxHostlistBytes = 1 << 20
	maxBrackets      = 3 // per name; the library mixes up the results of four
	maxHostDigits    = 15
	maxNameBytes     = 63
)

// Hosts expands a hostlist like n[1-3,7],m4 in the order given, each name
// once. It is bounded before anything is expanded.
func Hosts(s string) ([]filch.NodeName, error) {
	if s == "" || len(s) > MaxHostlistBytes {
		return nil, invalid("a node list of %d bytes", len(s))
	}
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i]) && s[i] != '[' && s[i] != ']' && s[i] != ',' {
			return nil, invalid("node list %s: no node name holds %q", clip(s), s[i])
		}
	}
	plain, n, err := guard(s)
	if err != nil {
		return nil, err
	}
	if n > MaxHosts {
		return nil, invalid("node list %s names more than %d nodes", clip(s), MaxHosts)
	}
	names, err := hostlist.Expand(plain)
	if err != nil {
		return nil, invalid("node list %s: %v", clip(s), err)
	}
	hosts := make([]filch.NodeName, 0, len(names))
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if name == "" || len(name) > maxNameBytes {
			return nil, invalid("node list %s: %s is not a node name", clip(s), clip(name))
		}
		if !seen[name] {
			seen[name] = true
			hosts = append(hosts, filch.NodeName(name))
		}
	}
	return hosts, nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// guard bounds what s expands to without expanding it; MaxHosts+1 stands for
// all that is more. It refuses the forms that the library gets wrong and
// rewrites those that it reads differently from Slurm.
func guard(s string) (plain string, total int, err error) {
	var b strings.Builder
	for i, name := range splitHosts(s) {
		if i > 0 {
			b.WriteByte(',')
		}
		count, groups := 1, 0
		for {
			open := strings.IndexByte(name, '[')
			if open < 0 {
				break
			}
			width := strings.IndexByte(name[open:], ']')
			if width < 0 {
				return "", 0, invalid("node list %s: a [ without its ]", clip(s))
			}
			b.WriteString(name[:open+1])
			n, err := guardGroup(&b, name[open+1:open+width])
			if err != nil {
				return "", 0, invalid("node list %s: %v", clip(s), err)
			}
			b.WriteByte(']')
			count, groups, name = min(count*n, MaxHosts+1), groups+1, name[open+width+1:]
		}
		if groups > maxBrackets {
			return "", 0, invalid("node list %s: more than %d [...] in one name", clip(s), maxBrackets)
		}
		b.WriteString(name)
		total = min(total+count, MaxHosts+1)
	}
	return b.String(), total, nil
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

// guardGroup counts the members of one bracket, numbers and ranges of them,
// and copies it to b. The library would pad all of 0-10 to two digits, so the
// 0 is set apart.
func guardGroup(b *strings.Builder, group string) (int, error) {
	count := 0
	for i, part := range strings.Split(group, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		if !digits(low) || !digits(high) || len(low) > maxHostDigits || len(high) > maxHostDigits {
			return 0, invalid("%s is not a range of numbers", clip(part))
		}
		first, _ := strconv.ParseInt(low, 10, 64)
		last, _ := strconv.ParseInt(high, 10, 64)
		if last < first || len(high) > len(low) && high[0] == '0' {
			return 0, invalid("the range %s goes down", part)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if low == "0" && len(high) > 1 {
			part = "0,1-" + high
		}
		b.WriteString(part)
		count = int(min(int64(count)+last-first+1, MaxHosts+1))
	}
	return count, nil
}

// clip quotes s for a message of one line.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// FormatHosts writes names as a hostlist that [Hosts] reads, as short as
// Slurm does: names that differ only in a trailing number share a bracket.
// The result names the same set, sorted by prefix and number.
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
