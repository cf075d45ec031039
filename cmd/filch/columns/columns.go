// Package columns makes values of the columns of a list, for filch submit --header and --colsep:
// a column has a number and perhaps a name, and the command has places for both.
package columns

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// ofPrograms are words in braces that programs take, as awk does: no columns.
var ofPrograms = []string{"print", "next", "exit"}

// namesShown bounds the names in a warning.
const namesShown = 5

// WarnOfOthers warns once of all {NAME} in texts where no column has the name. Other braces of a shell stay
// silent: {a,b}, {1..9}, ${HOME}.
func WarnOfOthers(texts []*string, names []string) {
	at := regexp.MustCompile(`\{([\pL_][\pL\pN_-]*)(\.|//?|/\.)?\}`)
	known := slices.Clone(ofPrograms)
	var others, meant []string
	for _, text := range texts {
		for _, m := range at.FindAllStringSubmatchIndex(*text, -1) {
			name := (*text)[m[2]:m[3]]
			if m[0] > 0 && (*text)[m[0]-1] == '$' || slices.Contains(known, name) {
				continue
			}
			known, others = append(known, name), append(others, "{"+name+"}")
			if near := filch.Nearest(name, slices.Values(names), min(max(len(name), 2), 3)); near != "" && !slices.Contains(meant, "{"+near+"}") {
				meant = append(meant, "{"+near+"}")
			}
		}
	}
	if len(others) == 0 {
		return
	}
	why := "the columns are " + ui.Clean(quoted(names))
	if len(names) == 0 {
		why = "without --header : the columns have no names, but numbers, as {1}"
	}
	ui.Warn(fmt.Sprintf("nothing replaces %s: %s", ui.Few(others, namesShown), why))
	if len(meant) > 0 {
		ui.Hint(fmt.Sprintf("did you mean %s?", ui.Few(meant, namesShown)))
	}
}

// quoted lists names, and quotes a name with blanks.
func quoted(names []string) string {
	words := slices.Clone(names)
	for i, w := range words {
		if strings.TrimSpace(w) != w || w == "" {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, ", ")
}

// AddRow adds the columns of a line; a missing column is empty.
func AddRow(b *workflow.Bag, parts []string, row int64) error {
	for k := range max(len(parts), len(b.Sources)) {
		if k == workflow.SourcesMax {
			return filch.Errorf(filch.Invalid, "line %d has more than %d columns", row+1, workflow.SourcesMax)
		}
		if k == len(b.Sources) {
			b.Sources = append(b.Sources, workflow.Source{Linked: k > 0})
			for range row {
				if err := b.Sources[k].Values.Add(""); err != nil {
					return err
				}
			}
		}
		value := ""
		if k < len(parts) {
			value = parts[k]
		}
		if err := b.Sources[k].Values.Add(value); err != nil {
			return err
		}
	}
	return nil
}

// Written remembers how the user wrote texts with the names of columns.
type Written struct{ was map[string]string }

// Rename writes {NAME}, {NAME.} and so on in texts as {2}, {2.} and so on.
func (w *Written) Rename(texts []*string, names []string) {
	w.was = map[string]string{}
	for _, text := range texts {
		was := *text
		for i, name := range names {
			for _, edit := range []string{"", ".", "/", "//", "/."} {
				*text = strings.ReplaceAll(*text, "{"+name+edit+"}", "{"+strconv.Itoa(i+1)+edit+"}")
			}
		}
		if was != *text {
			w.was[*text] = was
		}
	}
}

// Blame lets err quote the texts as the user wrote them.
func (w *Written) Blame(err error) error {
	var told *filch.Error
	if len(w.was) == 0 || !errors.As(err, &told) {
		return err
	}
	texts := slices.SortedFunc(maps.Keys(w.was), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(texts))
	for _, text := range texts {
		pairs = append(pairs, text, w.was[text])
	}
	told.Text = strings.NewReplacer(pairs...).Replace(told.Text)
	return err
}
