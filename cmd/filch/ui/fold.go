package ui

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Limits of a [Fold].
const (
	foldKinds = 64          // of warnings that are compared
	foldNames = 3           // shown
	foldAfter = time.Second // after the last warning of a kind, the others are counted out
)

// Fold prints warnings of many nodes or ranks: of warnings that differ in names and numbers
// alone, the first at once, and soon in one line how many more there are and of whom.
type Fold struct {
	mu    sync.Mutex // guards the fields below
	kinds map[string]*kind
}

// kind is warnings that differ in names and numbers alone.
type kind struct {
	first []string // the words of the first
	more  int      // not told yet
	names []string // of the first of these
	timer *time.Timer
}

// Warn prints a warning, or counts the warning.
func (f *Fold) Warn(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	words := strings.Fields(text)
	key := keyOf(words)
	k := f.kinds[key]
	switch {
	case k == nil && len(f.kinds) < foldKinds:
		if f.kinds == nil {
			f.kinds = map[string]*kind{}
		}
		f.kinds[key] = &kind{first: words}
		fallthrough
	case k == nil:
		Warn(text)
		return
	case k.timer == nil:
		k.timer = time.AfterFunc(foldAfter, func() { f.tell(k) })
	default:
		k.timer.Reset(foldAfter)
	}
	k.more++
	if name := k.nameIn(words); len(k.names) <= foldNames && name != "" {
		k.names = append(k.names, name)
	}
}

// Flush counts out what was not told yet.
func (f *Fold) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.kinds {
		k.tell()
	}
}

func (f *Fold) tell(k *kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.tell()
}

func (k *kind) tell() {
	if k.more == 0 {
		return
	}
	of := ""
	if n := len(k.names); n > 0 {
		of = ", of " + strings.Join(k.names[:min(n, foldNames)], ", ")
		if k.more > foldNames {
			of += " and others"
		}
	}
	Warn(fmt.Sprintf("%d more like this%s: %s", k.more, of, strings.Join(k.first, " ")))
	k.more, k.names = 0, nil
}

// keyOf is what the words of all warnings of a kind have in common.
func keyOf(words []string) string {
	key := make([]string, len(words))
	for i, w := range words {
		if key[i] = w; varies(words, i) {
			key[i] = "#"
		}
	}
	return strings.Join(key, " ")
}

// varies reports whether a word may be the name of a node, or a number: the word has a digit, or
// stands before a colon at the begin, or behind "on" or "node".
func varies(words []string, i int) bool {
	return strings.ContainsAny(words[i], "0123456789") || i == 0 && strings.HasSuffix(words[i], ":") || i > 0 && (words[i-1] == "on" || words[i-1] == "node")
}

// nameIn is the name in a warning that differs from the name in the first: best a word with a
// letter, else a number.
func (k *kind) nameIn(words []string) (name string) {
	for i, w := range words {
		if w == k.first[i] {
			continue
		}
		if w = strings.Trim(w, ":,;"); name == "" || strings.Trim(name, "0123456789") == "" {
			name = w
		}
	}
	return name
}
