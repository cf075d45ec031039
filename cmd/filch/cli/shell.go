package cli

import "strings"

// ShellWord is s as one word for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
