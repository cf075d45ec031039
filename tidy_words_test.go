package filch_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file holds the words of the code: old terms die out, terms with one meaning stay
// where that meaning is, and the glossary of CONTRIBUTING.md has terms of the code.

// oldTerm is a term that the code once used, and the term used now. The code may still
// have the old term left times: identifiers that differ, words of comments, and file
// names are counted, in product, tests and testbed. The number only falls.
type oldTerm struct {
	old, now string
	left     int
}

var oldTerms = []oldTerm{
	{"advert", "load", 8},
	{"agenda", "timers", 6},
	{"barren", "nodebackoff", 1},
	{"batchbook", "batchmeta", 0},
	{"brood", "localnodes", 0},
	{"confess", "logDamage", 2},
	{"diskside", "persist", 0},
	{"draft", "recordwriter", 18},
	{"evolve", "reconfig", 2},
	{"goers", "leavers", 0},
	{"graves", "tombstones", 0},
	{"habit", "durations", 3},
	{"hatch", "startAndWait", 0},
	{"heed", "acceptsFrom", 2},
	{"hopeful", "originMayReturn", 0},
	{"impatient", "startTimeout", 0},
	{"rebirth", "rejoin", 2},
	{"reborn", "restarted", 21},
	{"refound", "forcenew", 0},
	{"rehearse", "warmup", 2},
	{"remnant", "recovered", 1},
	{"sickness", "reportDiskState", 0},
	{"steward", "proposer", 11},
	{"stray", "orphan", 19},
	{"surround", "environment, process", 5},
	{"swear", "confirmMembership", 0},
	{"sworn", "confirmed", 2},
	{"tame", "sanitize", 1},
	{"tutor", "catchUp", 0},
	{"unborn", "unrecorded", 0},
	{"worklife", "taskfailover", 1},
}

// ownTerms have one meaning, in the packages below these folders. elsewhere is the number
// left in other packages, counted as in [oldTerm].
var ownTerms = []struct {
	term, meaning string
	folders       []string
	elsewhere     int
}{
	{"acceptor", "CASPaxos'", []string{"dht", "testbed"}, 6},
	{"fence", "MPI's collective", []string{"cmd", "launcher/daemon", "launcher/pmi", "launcher/pmix", "launcher/proc", "launcher/wire", "testbed"}, 7},
	{"leader", "a job's", []string{"cmd", "launcher", "mtc", "testbed"}, 1},
	{"participant", "a job's", []string{"cmd", "launcher", "testbed"}, 0},
	{"proposer", "the roster's", []string{"dht", "testbed"}, 3},
	{"room", "an amount", []string{"cmd", "dht", "launcher", "mtc", "scripts", "slots", "stealer", "testbed"}, 3},
}

var wordInText = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)

// wordsOf returns the words of an identifier, a comment or a file name, in lower case:
// startAndWait is start, and, wait.
func wordsOf(text string) (words []string) {
	for _, w := range wordInText.FindAllString(text, -1) {
		words = append(words, strings.ToLower(w))
	}
	return words
}

// isForm reports whether a word is the term, its plural, or a form of a verb.
func isForm(word, term string) bool {
	rest, ok := strings.CutPrefix(word, strings.TrimSuffix(term, "e"))
	return ok && (word == term || slices.Contains([]string{"s", "es", "d", "ed", "ing", "ings"}, rest))
}

// places returns the places of every word of the code: identifiers once for each package,
// words of comments each, and file names.
func places(t *testing.T) map[string][]place {
	t.Helper()
	all, seen := map[string][]place{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.path == "tidy_words_test.go" {
			continue
		}
		for _, w := range wordsOf(strings.TrimSuffix(path.Base(s.path), ".go")) {
			all[w] = append(all[w], place{s, 1, "the file's name", false})
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[s.pkg+" "+id.Name] {
				seen[s.pkg+" "+id.Name] = true
				for _, w := range wordsOf(id.Name) {
					all[w] = append(all[w], place{s, s.line(id.Pos()), id.Name, true})
				}
			}
			return true
		})
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, w := range wordsOf(c.Text) {
					all[w] = append(all[w], place{s, s.line(c.Pos()), "a comment", false})
				}
			}
		}
	}
	return all
}

// place is where a word stands.
type place struct {
	source
	at    int
	in    string
	named bool // in is an identifier, which counts once wherever else it is
}

// count reports the places of a term outside of the folders, when they are more than
// left.
func count(t *testing.T, all map[string][]place, term, reason string, folders []string, left int) {
	t.Helper()
	var found []place
	named := map[string]bool{}
	for w, places := range all {
		if !isForm(w, term) {
			continue
		}
		for _, p := range places {
			if named[p.in] || slices.ContainsFunc(folders, func(f string) bool { return isBelow(p.pkg, f) }) {
				continue
			}
			named[p.in] = p.named
			found = append(found, p)
		}
	}
	switch {
	case len(found) < left:
		t.Logf("%s is left %d times: write that number instead of %d", term, len(found), left)
	case len(found) > left:
		t.Errorf("%s is there %d times, at most %d: %s", term, len(found), left, reason)
		for _, p := range found {
			t.Logf("%s:%d: %s in %s", p.path, p.at, term, p.in)
		}
	}
}

func TestTidyOldTerms(t *testing.T) {
	all := places(t)
	for _, o := range oldTerms {
		count(t, all, o.old, "say "+o.now, nil, o.left)
	}
}

func TestTidyOwnTerms(t *testing.T) {
	all := places(t)
	for _, o := range ownTerms {
		count(t, all, o.term, "it means "+o.meaning+" alone", o.folders, o.elsewhere)
	}
}

// TestTidyGlossary holds the table of words in CONTRIBUTING.md against the product's
// code.
func TestTidyGlossary(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Words\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section of words")
	}
	all := places(t)
	var terms []string
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !strings.HasPrefix(line, "| ") || cell == "word" {
			continue
		}
		terms = append(terms, strings.Split(cell, ", ")...)
	}
	for i, term := range terms {
		if slices.Contains(terms[:i], term) {
			t.Errorf("the glossary defines %s twice", term)
		}
		used := false
		for w, places := range all {
			used = used || isForm(w, term) && slices.ContainsFunc(places, func(p place) bool {
				return !p.test && !isBelow(p.pkg, "testbed") && !isBelow(p.pkg, "scripts")
			})
		}
		if !used {
			t.Errorf("the glossary defines %s, which the code does not use", term)
		}
	}
	if len(terms) < 20 {
		t.Errorf("the glossary has %d terms: its table was not found", len(terms))
	}
}
