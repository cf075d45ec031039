package api

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// typeWord is the type of a field, in the words of docs/json.md.
func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeWord(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int, reflect.Uint32, reflect.Float64:
		return "number"
	case reflect.Map:
		return "object of strings"
	case reflect.Array:
		return "list of numbers"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "number or string"
		}
		return "list of " + strings.TrimPrefix(typeWord(t.Elem()), "list of ") + map[bool]string{true: "s"}[t.Elem().Kind() == reflect.String]
	}
	panic(t.String())
}

// table is the description of the operations.
func table(t *testing.T) string {
	var b strings.Builder
	for _, name := range names() {
		o := operations[name]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", name, o.doc)
		args := reflect.TypeOf(o.args()).Elem()
		if args.NumField() == 1 {
			continue
		}
		b.WriteString("| field | type | meaning |\n|---|---|---|\n")
		for f := range args.Fields() {
			if f.Anonymous {
				continue
			}
			doc := f.Tag.Get("doc")
			if doc == "" {
				t.Errorf("%s: the field %s has no words", name, f.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Tag.Get("json"), typeWord(f.Type), doc)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestAPIDoc keeps the operations of docs/api.md what the code takes; FILCH_GOLDEN=1 writes them.
func TestAPIDoc(t *testing.T) {
	const path, begin, end = "../../../docs/api.md", "<!-- tables -->\n", "<!-- end of tables -->\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the operations", path)
	}
	want := head + begin + table(t) + end + tail
	if os.Getenv("FILCH_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Errorf("%s is not what the code takes: FILCH_GOLDEN=1 go test ./launcher/daemon/api", path)
	}
	for _, code := range codes {
		if !strings.Contains(string(b), "| `"+code+"` |") {
			t.Errorf("%s does not name the code %s", path, code)
		}
	}
	for _, limit := range []int{lineMax >> 20, heldMax >> 20, queuedMax >> 20} {
		if !strings.Contains(string(b), fmt.Sprintf("%d MiB", limit)) {
			t.Errorf("%s does not name the limit of %d MiB", path, limit)
		}
	}
}
