// Package columns makes values of the columns of a list, for filch submit --header and --colsep:
// a column has a number and perhaps a name, and the command has places for both.
package columns

import (
	"fmt"
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

// WarnOfOthers warns of {NAME} in texts where no column has the name. Other braces of a shell stay
// silent: {a,b}, {1..9}, ${HOME}.
func WarnOfOthers(texts []*string, names []string) {
	at := regexp.MustCompile(`\{([\pL_][\pL\pN_-]*)(\.|//?|/\.)?\}`)
	known := slices.Clone(ofPrograms)
	for _, text := range texts {
		for _, m := range at.FindAllStringSubmatchIndex(*text, -1) {
			name := (*text)[m[2]:m[3]]
			if m[0] > 0 && (*text)[m[0]-1] == '$' || slices.Contains(known, name) {
				continue
			}
			known = append(known, name)
			why := "the columns are " + ui.Clean(quoted(names))
			if len(names) == 0 {
				why = "without --header : the columns have no names, but numbers, as {1}"
			}
			ui.Warn(fmt.Sprintf("nothing replaces {%s}: %s", name, why))
			if near := filch.Nearest(name, slices.Values(names), 3); near != "" {
				ui.Hint(fmt.Sprintf("did you mean {%s}?", ui.Clean(near)))
			}
		}
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

// Renamed writes {NAME}, {NAME.} and so on as {2}, {2.} and so on.
func Renamed(text string, names []string) string {
	for i, name := range names {
		for _, edit := range []string{"", ".", "/", "//", "/."} {
			text = strings.ReplaceAll(text, "{"+name+edit+"}", "{"+strconv.Itoa(i+1)+edit+"}")
		}
	}
	return text
}
