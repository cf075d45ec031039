package workflow

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A text that is no JSON gets the line, the column, the character there and what was expected.
func TestFaultsOfEntriesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`["a", 'b']`:               `x.json:1: entry 2: this is no JSON: column 7 has "'" where a value is expected`,
		"[\n  \"a\",\n  x\n]":      `x.json:3: entry 2: this is no JSON: column 3 has "x" where a value is expected`,
		`["a" "b"]`:                `x.json:1: entry 2: this is no JSON: column 6 has "\"" where a comma or ] is expected`,
		"[{\"run\": \"a\",\n}]":    `x.json:2: entry 1: this is no JSON: column 1 has "}" where a key in double quotes is expected`,
		`{"run" "a"}`:              `x.json:1: entry 1: this is no JSON: column 8 has "\"" where a colon is expected`,
		`{"run": "a" "cpus": 2}`:   `x.json:1: entry 1: this is no JSON: column 13 has "\"" where a comma or } is expected`,
		"\"a\"\n\"b\"\ntru\n":      `x.json:3: entry 3: this is no JSON: column 4 has "\n" where true, false or null is expected`,
		"\"a\"\n{\"cpus\": 1.x}\n": `x.json:2: entry 2: this is no JSON: column 12 has "x" where a digit is expected`,
	} {
		e := NewEntries(strings.NewReader(text), "x.json")
		var err error
		for err == nil {
			_, err = e.Next()
		}
		if errors.Is(err, io.EOF) || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
