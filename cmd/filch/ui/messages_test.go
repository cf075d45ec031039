package ui

import (
	"testing"
)

func TestCleanEscapesWhatATerminalWouldObey(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                        "plain",
		"größe ✓":                      "größe ✓",
		"a\nfilch: error: fake":        `a\nfilch: error: fake`,
		"\x1b[2Jgone":                  `\x1b[2Jgone`,
		"bad\xff":                      `bad\xff`,
		"c1\u009b31m":                  `c1\u009b31m`,
		"sep\u2028arator\x00\x7f":      `sep\u2028arator\x00\x7f`,
		"para\u2029graph":              `para\u2029graph`,
		"evil\u202egpj.exe":            `evil\u202egpj.exe`,
		"\u202aa\u202bb\u202cc\u202d":  `\u202aa\u202bb\u202cc\u202d`,
		"\u2066a\u2067b\u2068c\u2069":  `\u2066a\u2067b\u2068c\u2069`,
		"m\u200ea\u200fr\u061ck":       `m\u200ea\u200fr\u061ck`,
		"z\u200be\u200cr\u200do\ufeff": `z\u200be\u200cr\u200do\ufeff`,
		"soft\u00adhyphen\u2060":       `soft\u00adhyphen\u2060`,
		"tag\U000e0041":                `tag\U000e0041`,
		"שלום عربى 日本 é":               "שלום عربى 日本 é",
	} {
		if got := Clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}
