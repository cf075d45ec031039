//go:build root

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/filch-hpc/filch/testbed/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

const (
	commandWait = time.Minute      // for a command of filch
	shownWait   = 30 * time.Second // until the page shows something
	browserWait = 3 * time.Minute  // for all that a test does in a browser
)

// site is an instance of launchers on this machine.
type site struct {
	t   *testing.T
	dir string
	bin string
}

// newSite brings up an instance that ends with the test.
func newSite(t *testing.T, up ...string) *site {
	t.Helper()
	bin, err := rig.Product()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "fd")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, bin: bin}
	t.Cleanup(func() {
		if out, err := s.command(context.Background(), "down").CombinedOutput(); err != nil {
			t.Errorf("filch down: %v: %s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.filch(append([]string{"up", "--instance", "fair-heron"}, up...)...)
	return s
}

func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "FILCH_LOCAL=" + s.dir, "XDG_RUNTIME_DIR=" + s.dir, "LANG=C.UTF-8"}
	return cmd
}

// filch runs a command, and returns its output without white space around.
func (s *site) filch(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandWait)
	defer cancel()
	cmd := s.command(ctx, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("filch %q: %v\n%s%s", args, err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}

// tab is a page in a browser, and the errors that the page has met.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex // guards faults
	faults []string
}

// browse starts a browser that ends with the test.
func browse(t *testing.T, width, height int) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: scripts/install-deps test-all")
	}
	b := &tab{t: t}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(width, height))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	b.ctx = ctx
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, runtime.Enable, cdp.Empty{})
		if err == nil {
			_, err = cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		}
		return chromedp.Void{}, err
	})
	b.ctx, cancel = context.WithTimeout(ctx, browserWait)
	t.Cleanup(cancel)
	return b
}

// listen keeps what the browser reports as an error: exceptions, errors and warnings of the
// console, and its own, such as files that it could not get or was not allowed to.
func (b *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		text = fmt.Sprintf("%s at %s:%d", d.Text, d.URL, d.LineNumber+1)
		if d.Exception != nil {
			text += ": " + d.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			for _, a := range e.Args {
				text += string(a.Value) + " " + a.Description
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, text)
	}
}

// clean fails the test for each error so far.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("the browser reports: %s", f)
	}
	b.faults = nil
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until an expression of JavaScript is true.
func (b *tab) await(what, expr string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[chromedp.Void](expr, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(shownWait))); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("the page does not show %s: %v; errors: %q; the page shows:\n%s", what, err, b.faults, text)
	}
}

// read evaluates an expression.
func read[T any](b *tab, expr string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expr))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// painted is whether a canvas has more than one color.
func painted(id string) string {
	return fmt.Sprintf(`(() => { const c = document.getElementById(%q); if (!c || !c.width || !c.height) return false; const o = new OffscreenCanvas(c.width, c.height).getContext("2d", {willReadFrequently: true}); o.drawImage(c, 0, 0); return new Set(new Uint32Array(o.getImageData(0, 0, c.width, c.height).data.buffer)).size > 3; })()`, id)
}

// picture keeps a picture of the page, where FILCH_PICTURES names a folder.
func (b *tab) picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if dir := os.Getenv("FILCH_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o666); err != nil {
			b.t.Error(err)
		}
	}
}

// scheme makes the browser light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return chromedp.Void{}, err
	})
}

// hostile is a name that would become HTML, turn the direction of text, and move the cursor of
// a terminal.
const hostile = "<img src=x onerror=alert(1)></script>\u202e\x1b[31m\u200b&amp;"

// work submits a bag, a gang, a workflow and a run, some with hostile names.
func (s *site) work() (bag, flow string) {
	s.t.Helper()
	s.filch("run", "--detach", "-J", "wall", "-n", "5", "sleep", "120")
	bag = s.filch("submit", "-J", hostile, "--array", "1-1500", "--", "sh", "-c", `sleep 0.0$((FILCH_TASK % 9)); echo "task $FILCH_TASK "'<b>says</b>'; test $((FILCH_TASK % 50)) != 7`)
	s.filch("submit", "-J", "ring", "-n", "6", "--array", "1-4", "--", "sleep", "1")
	path := filepath.Join(s.dir, "flow.json")
	type task struct {
		Run   string   `json:"run"`
		After []string `json:"after,omitempty"`
	}
	list := map[string]task{}
	add := func(name, cmd string, after ...string) { list[name] = task{cmd, after} }
	add("fetch", "sleep 0.2")
	var parts []string
	for i := range 12 {
		name := fmt.Sprintf("part-%d", i)
		add(name, fmt.Sprintf("sleep 0.%d", i%5+1), "fetch")
		parts = append(parts, name)
	}
	add("join", "sleep 40", parts...)
	add("plot", "true", "join")
	text, err := json.Marshal(map[string]any{"filch": 1, "name": "flow", "tasks": list})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	flow = s.filch("workflow", "run", "--detach", path)
	return bag, flow
}
