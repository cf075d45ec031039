package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/cmd/filchtop/screen"
	"github.com/filch-hpc/filch/launcher/client"
)

const (
	framesPerSecond = 10
	tickEvery       = 500 * time.Millisecond // the ages on the screen
	runWait         = 15 * time.Second       // for a command of a key
	runBytes        = 256 << 10              // of its output
)

// live shows the screen until a key or a signal ends it.
func live(plan client.Screen) error {
	color := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	p := &program{asker: &asker{plan: plan}, model: screen.Model{Instance: plan.Dir.Instance, Color: color}}
	_, err := tea.NewProgram(p, tea.WithFPS(framesPerSecond)).Run()
	if err != nil {
		return filch.Errorf(filch.Internal, "the screen ended: %s", err.Error())
	}
	return nil
}

// program carries the screen into bubbletea. At most one question, one tick and one command
// are under way, so that neither a slow terminal nor a hung launcher makes the program grow.
type program struct {
	asker   *asker
	model   screen.Model
	running bool // a command of a key
}

// asks is the time for the next question.
type asks struct{}

func (p *program) Init() tea.Cmd {
	p.model, _ = p.model.Update(screen.Tick(time.Now()))
	return tea.Batch(p.ask(), tick())
}

func tick() tea.Cmd { return tea.Tick(tickEvery, func(t time.Time) tea.Msg { return screen.Tick(t) }) }

// ask asks the launcher once.
func (p *program) ask() tea.Cmd {
	job := p.model.Wants()
	return func() tea.Msg {
		view, err := p.asker.ask(job)
		if err != nil {
			return screen.Failed{At: time.Now(), Text: textOf(err)}
		}
		return screen.Told{At: time.Now(), View: view}
	}
}

func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return p.take(screen.Size{Width: msg.Width, Height: msg.Height}, nil)
	case tea.KeyPressMsg:
		return p.take(screen.Key(msg.String()), nil)
	case screen.Tick:
		return p.take(msg, tick())
	case screen.Told, screen.Failed:
		return p.take(msg, tea.Tick(p.asker.plan.Interval, func(time.Time) tea.Msg { return asks{} }))
	case screen.Said:
		p.running = false
		return p.take(msg, nil)
	case asks:
		return p, p.ask()
	}
	return p, nil
}

// take gives the screen an input and carries out its order.
func (p *program) take(in any, then tea.Cmd) (tea.Model, tea.Cmd) {
	m, order := p.model.Update(in)
	p.model = m
	switch {
	case order.Quit:
		return p, tea.Quit
	case order.Run != nil && !p.running:
		p.running = true
		return p, tea.Batch(then, p.run(order))
	}
	return p, then
}

// run runs a command of filch for the launcher's instance.
func (p *program) run(o screen.Order) tea.Cmd {
	plan := p.asker.plan
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), runWait)
		defer cancel()
		out := &tail{}
		cmd := exec.CommandContext(ctx, plan.Filch, append([]string{"--instance", plan.Dir.Instance}, o.Run...)...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		text := out.String()
		switch {
		case ctx.Err() != nil:
			text += fmt.Sprintf("\n(ended after %s)", filch.ShortTime(runWait))
		case err != nil && strings.TrimSpace(text) == "":
			text = ui.Cause(err)
		case strings.TrimSpace(text) == "":
			text = "done"
		}
		return screen.Said{Title: o.Title, Text: text}
	}
}

// tail keeps the last bytes that a command has written.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if more := len(t.kept) - runBytes; more > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[more:]...), true
	}
	return len(b), nil
}

func (t *tail) String() string {
	if t.cut {
		return "(earlier output is left out)\n" + string(t.kept)
	}
	return string(t.kept)
}

func (p *program) View() tea.View {
	v := tea.NewView(strings.Join(p.model.Frame(), "\n"))
	v.AltScreen = true
	return v
}
