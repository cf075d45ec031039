// Command filchtop is the screen of filch top. filch carries filchtop as a program of its
// own, so that neither the client nor the launchers link the library of the screen; users
// start filchtop by filch top. The only argument is a [client.Screen] as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/cmd/filchtop/screen"
	"github.com/filch-hpc/filch/launcher/client"
)

func main() {
	plan, err := readPlan(os.Args[1:])
	switch {
	case err != nil:
	case plan.Once:
		err = once(plan)
	default:
		err = live(plan)
	}
	if err != nil && !ui.IsBrokenPipe(err) {
		os.Exit(ui.Fail(err))
	}
}

func readPlan(args []string) (plan client.Screen, err error) {
	if len(args) != 1 {
		return plan, filch.Errorf(filch.Invalid, "filchtop takes one argument").WithHint("`filch top` starts filchtop")
	}
	if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
		return plan, filch.Errorf(filch.Invalid, "filchtop cannot read its argument: %s", err.Error()).WithHint("`filch top` starts filchtop")
	}
	return plan, nil
}

// plainWidth is the width of --once without a terminal and COLUMNS.
const plainWidth = 160

// once prints one frame.
func once(plan client.Screen) error {
	a := asker{plan: plan}
	defer a.close()
	view, err := a.ask(0)
	if err != nil {
		return err
	}
	m := screen.Model{Instance: plan.Dir.Instance, Once: true}
	m, _ = m.Update(screen.Size{Width: width()})
	m, _ = m.Update(screen.Told{At: time.Now(), View: view})
	_, err = fmt.Println(strings.Join(m.Frame(), "\n"))
	return err
}

// width is that of the terminal, else COLUMNS.
func width() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return plainWidth
}

// textOf is an error with its hint, in one line.
func textOf(err error) string {
	var e *filch.Error
	if errors.As(err, &e) && e.Hint != "" {
		return e.Text + " (" + e.Hint + ")"
	}
	return err.Error()
}
