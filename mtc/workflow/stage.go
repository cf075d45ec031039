package workflow

import (
	"path"
	"strings"

	"github.com/filch-hpc/filch"
)

// StagedIn fills in the names of an input file of a bag's task. Relative files are in
// folder; name "" is the file's name without the path. The result is the file's path
// relative to the root folder, and the name in the task's folder.
func StagedIn(folder, file, name string, values []string, number int64) (from, to string, err error) {
	refused := func(what, text string, why error) error {
		return filch.Errorf(filch.Invalid, "the %s %q of task %d is refused: %v", what, text, number, why)
	}
	if from, err = (Template{}).Fill(file, values, number); err != nil {
		return "", "", err
	}
	if to, err = (Template{}).Fill(name, values, number); err != nil {
		return "", "", err
	}
	if strings.TrimSpace(from) == "" {
		return "", "", filch.Errorf(filch.Invalid, "an input file of task %d has no name: %q", number, file)
	}
	if to == "" {
		to = path.Base(from)
	}
	if !path.IsAbs(from) {
		from = path.Join(folder, from)
	}
	from = path.Clean(from)[1:]
	if err := CheckPath(from); err != nil {
		return "", "", refused("input file", from, err)
	}
	if err := CheckPath(to); err != nil {
		return "", "", refused("name of an input", to, err)
	}
	return from, to, nil
}

// StagedOut fills in a pattern for output files of a bag's task. Values stand for
// themselves, also if they hold characters of patterns.
func StagedOut(pattern string, values []string, number int64) (string, error) {
	plain := make([]string, len(values))
	for i, v := range values {
		plain[i] = escapePattern.Replace(v)
	}
	filled, err := Template{}.Fill(pattern, plain, number)
	if err != nil {
		return "", err
	}
	if err := CheckPath(filled); err != nil {
		return "", filch.Errorf(filch.Invalid, "the pattern %q of task %d is refused: %v", filled, number, err)
	}
	if _, err := path.Match(filled, ""); err != nil {
		return "", filch.Errorf(filch.Invalid, "the pattern %q of task %d is malformed", filled, number).WithHint("* and ? stand for characters, [a-z] for one of some characters, and \\ protects the next character")
	}
	return filled, nil
}

var escapePattern = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
