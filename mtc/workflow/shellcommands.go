package workflow

import (
	"slices"
	"strings"
)

// beforeCommand are the words of the shell with a command behind them, and changesFolder those
// after which a relative path means another place.
var (
	beforeCommand = []string{"if", "then", "elif", "else", "while", "until", "do", "!", "time", "exec", "nohup"}
	changesFolder = []string{"cd", "pushd", "popd"}
)

// ShellCommands returns the first words of the commands of a line for the shell, without
// assignments to variables, and the other words of the commands, without those that a command
// writes to. A first word that the shell would change is "", and another such word is left out. ShellCommands stops at a
// text that it does not understand: a change of the folder, a subshell, a function, a case, a
// here-document, a comment. The line is not checked.
func ShellCommands(line string) (programs, words []string) {
	for len(line) > 0 {
		word, rest, ok := shellWord(line)
		name, _, assigns := strings.Cut(word, "=")
		switch line = rest; {
		case !ok || slices.Contains(changesFolder, word) || word == "case" || word == "function":
			return programs, words
		case word == "" || slices.Contains(beforeCommand, word) || assigns && isVariable(name):
			continue
		}
		if !isPlain(word) {
			word = ""
		}
		programs = append(programs, word)
		for before := ""; !commandEnds(line); before = word {
			if word, line, ok = shellWord(line); !ok {
				return programs, words
			}
			if read := strings.TrimPrefix(word, "<"); read != "" && isPlain(read) && !strings.HasSuffix(before, ">") {
				words = append(words, read)
			}
		}
	}
	return programs, words
}

// commandEnds reports whether a command ends before the next word of a line.
func commandEnds(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || strings.ContainsRune(";|\n", rune(line[0])) || line[0] == '&' && !strings.HasPrefix(line, "&>")
}

// shellWord cuts the next word off a line, and separators before the word; quotes stay in the
// word. ok is false at a text that is not understood.
func shellWord(line string) (word, rest string, ok bool) {
	line = strings.TrimLeft(line, " \t\n;|&")
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', ';', '|':
			return line[:i], line[i:], true
		case '&':
			if (i == 0 || line[i-1] != '>' && line[i-1] != '<') && !strings.HasPrefix(line[i:], "&>") {
				return line[:i], line[i:], true
			}
		case '\\':
			i++
		case '\'', '"':
			n := strings.IndexByte(line[i+1:], c)
			if n < 0 || c == '"' && strings.ContainsAny(line[i+1:i+1+n], "\\`(") {
				return "", "", false
			}
			i += n + 1
		case '`', '(', ')', '{', '}', '#':
			return "", "", false
		case '<':
			if strings.HasPrefix(line[i:], "<<") {
				return "", "", false
			}
		}
	}
	return line, "", true
}

// isVariable reports whether a word can be the name of a variable.
func isVariable(word string) bool {
	for i, r := range word {
		if r != '_' && (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return word != ""
}

// isPlain reports whether the shell takes a word as it stands.
func isPlain(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool {
		return ('a' > r || r > 'z') && ('A' > r || r > 'Z') && ('0' > r || r > '9') && !strings.ContainsRune("._/-+", r)
	})
}
