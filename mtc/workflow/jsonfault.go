package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// expected is what a text of JSON must have at a fault, by the end of encoding/json's message.
var expected = [...]struct{ text, want string }{
	{"looking for beginning of value", "a value"},
	{"looking for beginning of object key string", "a key in double quotes"},
	{"after object key:value pair", "a comma or }"},
	{"after object key", "a colon"},
	{"after array element", "a comma or ]"},
	{"after top-level value", "the end of the text"},
	{"in string literal", `text, or \n and the like in place of the character itself`},
	{"in string escape code", `one of the characters "\/bfnrtu`},
	{"hexadecimal character escape", "a hexadecimal digit"},
	{"numeric literal", "a digit"},
	{"in literal", "true, false or null"},
}

// notJSON says what is wrong at an offset of a text whose line begins at an offset.
func notJSON(fault *json.SyntaxError, text []byte, at, lineBegin int) string {
	said := fault.Error()
	if i := strings.Index(said, " (expecting"); i >= 0 {
		said = said[:i]
	}
	if strings.HasPrefix(said, "unexpected end") {
		return "this is no JSON: the text ends too early"
	}
	want := "something else"
	for _, e := range expected {
		if strings.Contains(said, e.text) {
			want = e.want
			break
		}
	}
	if at >= len(text) {
		return "this is no JSON: the text ends where " + want + " is expected"
	}
	_, n := utf8.DecodeRune(text[at:])
	return fmt.Sprintf("this is no JSON: column %d has %s where %s is expected", at-lineBegin+1, quote(string(text[at:at+n])), want)
}
