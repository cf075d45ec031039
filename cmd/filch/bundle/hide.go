package bundle

import (
	"regexp"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/launcher"
)

// hiddenText stands for a secret.
const hiddenText = "[left out]"

// Hidden is what stands for a private text in a bundle.
func Hidden(text string) string {
	if text == "" {
		return ""
	}
	return hiddenText
}

// Cause returns the cause of the end of a job without the program that could not be run, and
// without the reason that a person gave for a cancel.
func Cause(text string) string {
	if before, reason, found := strings.Cut(text, launcher.CancelReason); found {
		return before + launcher.CancelReason + Hidden(reason)
	}
	const failed = "cannot run "
	before, rest, found := strings.Cut(text, failed)
	if !found {
		return text
	}
	why := ""
	if i := strings.LastIndex(rest, ": "); i >= 0 {
		why = rest[i:]
	}
	return before + failed + hiddenText + why
}

// minSecret is the length below which a secret is not searched for: a short text
// stands in many words that are no secret.
const minSecret = 6

// words are parts of a name whose value is a secret.
var words = []string{"secret", "token", "password", "passwd", "passphrase", "credential", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "_jwt"}

// rule finds secrets by their looks: the first group of the pattern stays. A text of
// megabytes is searched for the signs, in small letters, before the pattern is tried.
type rule struct {
	signs   []string
	all     bool // all signs, not any
	pattern string
	whole   bool // over lines
	look    *regexp.Regexp
}

func rules() []rule {
	word := "(?:" + strings.Join(words, "|") + ")"
	return []rule{
		// Keys in PEM, to their end or to the end of the text.
		{signs: []string{"private key-----"}, whole: true, pattern: `(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`},
		// name=value, name: value, "name": "value", also inside of a string of JSON.
		{signs: words, pattern: `(?i)([\w.-]*` + word + `[\w.-]*["'\\]*\s*[=:]\s*\\*")[^"\\]+`},
		{signs: words, pattern: `(?i)([\w.-]*` + word + `[\w.-]*["'\\]*\s*[=:]\s*["'\\]*)[^\s"',;&\\]+`},
		// --password value.
		{signs: words, pattern: `(?i)(--?[\w-]*` + word + `[\w-]*[ \t]+)[^\s"'\\]+`},
		{signs: []string{"bearer", "basic"}, pattern: `(?i)(\b(?:bearer|basic)[ \t]+)[\w.+/=~-]{8,}`},
		// user:password in an address.
		{signs: []string{"://", "@"}, all: true, pattern: `(?i)(\b[a-z][a-z0-9+.-]*://[^/\s:@"]*:)[^@\s/"]+@`},
	}
}

// hider takes secrets out of texts.
type hider struct {
	exact *strings.Replacer
	rules []rule
}

// newHider compiles the patterns, which only a command that makes a bundle pays for.
func newHider(secrets []string) *hider {
	var known []string
	for _, s := range secrets {
		if len(s) >= minSecret && !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	// A secret that contains another goes first.
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(known))
	for _, s := range known {
		pairs = append(pairs, s, hiddenText)
	}
	h := &hider{exact: strings.NewReplacer(pairs...), rules: rules()}
	for i := range h.rules {
		h.rules[i].look = regexp.MustCompile(h.rules[i].pattern)
	}
	return h
}

// hide returns the text without its secrets, and how many there were.
func (h *hider) hide(text string) (clean string, n int) {
	before := strings.Count(text, hiddenText)
	text = h.exact.Replace(text)
	n = strings.Count(text, hiddenText) - before
	for i := range h.rules {
		if r := &h.rules[i]; r.whole && r.hasSigns(strings.ToLower(text)) {
			text = r.replace(text, &n)
		}
	}
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		small := strings.ToLower(line)
		for i := range h.rules {
			if r := &h.rules[i]; !r.whole && r.hasSigns(small) {
				line = r.replace(line, &n)
			}
		}
		b.WriteString(hideHex(line, &n))
	}
	return b.String(), n
}

func (r *rule) hasSigns(small string) bool {
	for _, s := range r.signs {
		if strings.Contains(small, s) != r.all {
			return !r.all
		}
	}
	return r.all
}

func (r *rule) replace(text string, n *int) string {
	return r.look.ReplaceAllStringFunc(text, func(found string) string {
		kept := r.look.FindStringSubmatch(found)
		if kept == nil || strings.HasPrefix(found[len(kept[1]):], "[left") { // hidden by another rule
			return found
		}
		*n++
		return kept[1] + hiddenText
	})
}

// hexSecret is the number of hexadecimal digits of an instance's secret. Hashes of
// that length go, too.
const hexSecret = 64

// hideHex hides words of so many hexadecimal digits.
func hideHex(line string, n *int) string {
	var b strings.Builder
	from, run := 0, 0 // of the line, from is not in b yet
	for i := 0; i <= len(line); i++ {
		if i < len(line) && strings.IndexByte("0123456789abcdefABCDEF", line[i]) >= 0 {
			run++
			continue
		}
		if run == hexSecret {
			b.WriteString(line[from:i-run] + hiddenText)
			from = i
			*n++
		}
		run = 0
	}
	if from == 0 {
		return line
	}
	return b.String() + line[from:]
}

// IsSecret reports whether the value of a variable with this name is a secret.
func IsSecret(name string) bool {
	small := strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(small, w) })
}
