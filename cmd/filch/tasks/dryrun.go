package tasks

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// printCommands prints the command of each task for a shell, with the variable that has
// the value of the task if the command does not name the value.
func printCommands(s *submit.Job, lines source) error {
	o, _, err := wire.DecodeOrder(s.Spec.Body)
	if err != nil {
		o = &launcher.TaskOrder{Argv: []string{"filch", "submit", "--builtin"}}
	}
	var t workflow.Template
	if o.Fill {
		var err error
		if t, err = workflow.NewTemplate(o.Argv, 1, false); err != nil {
			return err
		}
	}
	if lines == nil {
		lines = many(int64(s.Total), func(int64) ([]byte, error) { return nil, nil })
	}
	out := bufio.NewWriter(os.Stdout)
	for i := int32(0); ; i++ {
		p, err := lines()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		text := ""
		if err == nil {
			text, err = commandOf(o, t, s.Spec.Number(i), p)
		}
		if err == nil {
			_, err = out.WriteString(text + "\n")
		}
		if err != nil {
			_ = out.Flush()
			return err
		}
	}
}

// commandOf is the command of the task with this number and payload.
func commandOf(o *launcher.TaskOrder, t workflow.Template, number int32, p []byte) (string, error) {
	argv, before := o.Argv, ""
	_, p = launcher.TaskMark(launcher.Untimed(p))
	if len(p) > 4 && p[0] == launcher.PayloadNumber {
		number, p = int32(binary.BigEndian.Uint32(p[1:])), p[5:]
	}
	values, place := []string{strconv.Itoa(int(number))}, int64(number)
	switch {
	case len(p) == 0 && !o.Fill:
		before = "FILCH_TASK=" + values[0] + " "
	case len(p) == 0:
	case p[0] == launcher.PayloadLine:
		line := string(p[1:])
		values, place = []string{line}, place+1
		if o.Worker {
			return line, nil
		}
		if len(argv) == 0 {
			argv = workflow.ShellArgv(line)
		} else if !hasPlaces(argv) {
			before = "FILCH_LINE=" + workflow.Quote(line) + " "
		}
	case p[0] == launcher.PayloadItem, p[0] == launcher.PayloadSlot:
		var item launcher.TaskItem
		if err := wire.Unmarshal(p[1:], &item); err != nil {
			return "", err
		}
		if len(item.Argv) > 0 {
			return shellText(item.Argv), nil
		}
	}
	if o.Fill && len(o.Argv) > 0 {
		var err error
		if argv, err = t.Expand(values, place, 0); err != nil {
			return "", err
		}
	}
	return before + shellText(argv), nil
}

// shellText writes a command for a shell.
func shellText(argv []string) string {
	if shell := workflow.ShellArgv(""); len(argv) == 3 && argv[0] == shell[0] && argv[1] == "-c" {
		return argv[2]
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = workflow.Quote(a)
	}
	return strings.Join(words, " ")
}
