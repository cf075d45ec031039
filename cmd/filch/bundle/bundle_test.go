package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

const planted = "hunter2-Zz9"

func TestSecretsAreHidden(t *testing.T) {
	digits := strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct{ text, want string }{
		"exact":             {"x" + planted + "y", "x[left out]y"},
		"exact-twice":       {planted + " " + planted, "[left out] [left out]"},
		"variable":          {"AWS_SECRET_ACCESS_KEY=abcd GITHUB_TOKEN=ef", "AWS_SECRET_ACCESS_KEY=[left out] GITHUB_TOKEN=[left out]"},
		"json":              {`{"password": "abcd", "name": "x"}`, `{"password": "[left out]", "name": "x"}`},
		"json-of-words":     {`{"password": "two words", "n": 1}`, `{"password": "[left out]", "n": 1}`},
		"two-hexadecimals":  {digits + " " + digits + "z" + digits + "\n" + digits, "[left out] [left out]z[left out]\n[left out]"},
		"json-in-json":      {`{"cause": "{\"api_key\": \"abcd\"}"}`, `{"cause": "{\"api_key\": \"[left out]\"}"}`},
		"option":            {"run --db-password abcd -n 4", "run --db-password [left out] -n 4"},
		"option-with-equal": {"run --token=abcd -n 4", "run --token=[left out] -n 4"},
		"header":            {"Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer [left out]"},
		"address":           {"https://me:abcd@host/x", "https://me:[left out]host/x"},
		"hexadecimal":       {"the text " + digits + ".", "the text [left out]."},
		"in-capitals":       {strings.ToUpper(digits), "[left out]"},
		"longer-hash":       {digits + "00", digits + "00"},
		"pem":               {"a\n-----BEGIN RSA PRIVATE KEY-----\nabcd\n-----END RSA PRIVATE KEY-----\nb", "a\n[left out]\nb"},
		"pem-that-is-cut":   {"a\n-----BEGIN PRIVATE KEY-----\nabcd\n", "a\n[left out]"},
		"harmless":          {"the secret file is private; a key of 4 tokens", "the secret file is private; a key of 4 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			b := New([]string{planted, "abc"}) // "abc" is too short to search for
			b.Add(File{"f", c.text})
			if got := b.files[0].Text; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if want := strings.Count(c.want, hiddenText); b.hidden != want {
				t.Errorf("got %d secrets, want %d", b.hidden, want)
			}
		})
	}
}

func TestCausesNameNoProgram(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"rank 1 on n1: killed by SIGSEGV":  "rank 1 on n1: killed by SIGSEGV",
		"cannot run ./my-token: not on n1": "cannot run [left out]: not on n1",
		"cannot run a: b on n1: exec format error": "cannot run [left out]: exec format error",
		"cannot run an empty program name on n1":   "cannot run [left out]",
		"rank 0 on n1: cannot run x: no such file": "rank 0 on n1: cannot run [left out]: no such file",
		"cancelled by filch cancel: too: dear":     "cancelled by filch cancel: [left out]",
	} {
		b := New(nil)
		b.Add(File{"f", Cause(text)})
		if got := b.files[0].Text; got != want {
			t.Errorf("the cause %q is %q in a bundle, want %q", text, got, want)
		}
	}
}

// unpack reads the archive as tar does.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if head.Mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", head.Name, head.Mode)
		}
		files[head.Name] = string(text)
	}
}

// A bundle stays small, and its first page names all that is missing.
func TestBundleIsBounded(t *testing.T) {
	b := New(nil)
	b.Add(File{"large", strings.Repeat("é", maxFile)})
	for range maxBundle/maxFile + 3 {
		b.Add(File{"more", strings.Repeat("x", maxFile)})
	}
	for i := range maxNotes + 7 {
		b.Leave("note %d\nof two lines with password=abcd", i)
	}
	b.Add(File{"bytes", "\xff\x00\n"})
	packed, err := b.Pack("About.", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, packed)
	size := 0
	for _, text := range files {
		size += len(text)
	}
	if size > maxBundle+1<<20 {
		t.Errorf("a bundle has %d bytes, want at most %d", size, maxBundle)
	}
	if got := len(files[folder+"large"]); got > maxFile || got < maxFile-4 {
		t.Errorf("a large file has %d bytes in the bundle, want %d", got, maxFile)
	}
	page := files[folder+"README.txt"]
	for _, want := range []string{
		"About.\n", "large: 1048576 of 2097152 bytes, at the end", "more: a bundle holds at most 1000 files and 16 MiB", "note 3 of two lines with password=[left out]\n", " more\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the first page lacks %q", want)
		}
	}
	if strings.Contains(page, "abcd") {
		t.Error("the first page has a secret")
	}
	if b.Left() < maxNotes+7 {
		t.Errorf("%d notes are counted, want %d", b.Left(), maxNotes+7)
	}
	if got := files[folder+"bytes"]; got != "" && got != "�\x00\n" {
		t.Errorf("bytes that are no text are %q", got)
	}
}
