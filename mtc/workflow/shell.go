package workflow

import "strings"

const shellPath = "/bin/sh"

// builtins are words that a shell does not look up in PATH, or for which a shell does
// more than the program of the same name: a line that begins with such a word needs the
// shell.
const builtins = " . : [ alias bg break case cd command continue do done elif else esac eval exec exit export fc fg fi for function getopts hash if in jobs local read readonly return select set shift source test then time times trap type ulimit umask unalias unset until wait while "

// ShellArgv is the command for a line of shell text: a shell, or no shell if the line is
// only words, which saves the work of a process for each task.
func ShellArgv(line string) []string {
	if words, ok := plainWords(line); ok {
		return words
	}
	return []string{shellPath, "-c", line}
}

// plainWords splits a line that is only words to a shell.
func plainWords(line string) ([]string, bool) {
	for i := range len(line) {
		if c := line[i]; !plainByte(c) && c != ' ' && c != '\t' {
			return nil, false
		}
	}
	words := strings.Fields(line)
	if len(words) == 0 || strings.Contains(words[0], "=") || strings.Contains(builtins, " "+words[0]+" ") {
		return nil, false
	}
	return words, true
}

// plainByte reports whether c has no special meaning to a shell.
func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-./:,=+@%", c) >= 0
}

// Quote writes a value so that a shell reads the value as a single word.
func Quote(value string) string {
	plain := value != ""
	for i := 0; plain && i < len(value); i++ {
		plain = plainByte(value[i])
	}
	if plain {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
