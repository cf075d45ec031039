package workflow

import (
	"slices"
	"testing"
)

func TestShellCommands(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                      nil,
		"./a x":                                 {"./a"},
		"BAD=1 ./a":                             {"./a"},
		"A='x y' B=\"$C\" ./a >out 2>&1":        {"./a"},
		"A=1":                                   nil,
		"sleep 1; ./a":                          {"sleep", "./a"},
		"./a x|./b&&./c||./d\n./e& ./f":         {"./a", "./b", "./c", "./d", "./e", "./f"},
		"./a 2>&1 && ./b &>log; ./c":            {"./a", "./b", "./c"},
		"echo 'no; ./x' \"; ./y\" \\; ./z; ./a": {"echo", "./a"},
		"for i in 1 2; do ./a $i; done":         {"for", "./a", "done"},
		"if ./a; then ./b; fi":                  {"./a", "./b", "fi"},
		"$HOME/a; ./b":                          {"", "./b"},
		"./a; cd x; ./b":                        {"./a"},
		"./a; (./b)":                            {"./a"},
		"./a $(./b); ./c":                       {"./a"},
		"./a <<E\n./b\nE":                       {"./a"},
		"./a # ; ./b":                           {"./a"},
		"./a 'open; ./b":                        {"./a"},
		"f() { ./a; }; f":                       nil,
	} {
		if got, _ := ShellCommands(line); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		"./a":                               nil,
		"sh a.sh x/y <in >out 2>err":        {"a.sh", "x/y", "in"},
		"./a <in > out; A=1 sh b.sh &> log": {"in", "b.sh"},
		"cat a $b 'c' *.d e >> f":           {"a", "e"},
		"cat a; cd x; cat b":                {"a"},
	} {
		if _, got := ShellCommands(line); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
