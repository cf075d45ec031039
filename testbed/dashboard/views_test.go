//go:build root

package dashboard

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// Limits of a frame of the timeline.
const (
	framesMin  = 60
	frameMax   = 8.0 // milliseconds of the script, of 95 of 100 frames
	spansDrawn = 100_000
)

// TestDashboardInABrowser opens each view, by its button and by its key, and looks at what the
// view shows of a bag, gangs, a workflow and a run that waits.
func TestDashboardInABrowser(t *testing.T) {
	s := newSite(t, "--nodes", "4", "--slots", "4")
	bag, flow := s.work()
	b := browse(t, 1200, 760)
	url := s.filch("dashboard")
	b.scheme("light")
	b.do(chromedp.Navigate(url))
	b.await("the instance", `document.getElementById("instance").textContent === "fair-heron" && document.getElementById("totals").textContent.includes("4/4 nodes")`)
	choose := func(job string) {
		t.Helper()
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const e = document.getElementById("job"); e.value = %q; e.dispatchEvent(new Event("change")); })()`, job)))
		b.await("job "+job, `location.hash.endsWith("/`+job+`")`)
	}
	choose(bag)
	views := []struct{ id, shows string }{
		{"nodes", painted("heat") + ` && document.getElementById("main").textContent.includes("slot")`},
		{"steals", painted("steals") + ` && document.querySelectorAll("#main tbody tr").length > 0`},
		{"timeline", painted("timeline") + ` && window.frameTimes.length > 0`},
		{"graph", painted("graph") + ` && document.getElementById("graph").getAttribute("aria-label") === "graph of 15 tasks"`},
		{"rates", `document.querySelectorAll("figure").length === 9 && document.querySelector("figcaption b").textContent.includes("of 16")`},
		{"jobs", `document.querySelectorAll("tr[data-job]").length >= 4 && document.getElementById("detail").textContent.includes("job ")`},
		{"past", `document.querySelector("#main").textContent.includes("ring")`},
	}
	for i, v := range views {
		if v.id == "graph" {
			choose(flow)
		}
		b.do(chromedp.Click(chromedp.CSS(`button[data-view="` + v.id + `"]`)))
		b.await("the view "+v.id+" by its button", `document.querySelector('[data-view="`+v.id+`"]').getAttribute("aria-selected") === "true" && (`+v.shows+`)`)
		b.picture("dashboard-" + v.id)
		b.clean()
		other := views[(i+3)%len(views)].id
		b.do(chromedp.Click(chromedp.CSS(`button[data-view="`+other+`"]`)), chromedp.KeyEvent(fmt.Sprint(i+1)))
		b.await("the view "+v.id+" by its key", `document.querySelector('[data-view="`+v.id+`"]').getAttribute("aria-selected") === "true" && (`+v.shows+`)`)
	}
	b.scheme("dark")
	s.filch("run", "--detach", "-J", "big", "-n", "16", "sleep", "60") // waits for the wall
	choose(bag)
	for _, v := range views {
		b.do(chromedp.Click(chromedp.CSS(`button[data-view="` + v.id + `"]`)))
		b.await("the view "+v.id+" in the dark", `document.querySelector('[data-view="`+v.id+`"]').getAttribute("aria-selected") === "true"`)
		b.picture("dashboard-" + v.id + "-dark")
	}
	b.clean()
	s.keys(b, bag)
	s.mouse(b, bag, flow)
	s.hostileNames(b, bag)
	b.clean()
	s.filch("dashboard", "--stop")
	b.await("that the launcher does not answer", `document.getElementById("age").textContent.includes("trying again every 2 s")`)
}

// keys presses the keys of the views.
func (s *site) keys(b *tab, bag string) {
	s.t.Helper()
	b.do(chromedp.KeyEvent("?"))
	b.await("the keys", `document.getElementById("help").open`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("no keys", `!document.getElementById("help").open`)
	for key, says := range map[string]string{"e": "job " + bag, "i": "kind", "l": "<b>says</b>"} {
		b.do(chromedp.KeyEvent(key))
		b.await("the answer of "+key, fmt.Sprintf(`document.getElementById("detail").textContent.includes(%q)`, says))
	}
	b.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("big"))
	b.await("the rows with big", `document.querySelectorAll("tr[data-job]").length === 1`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await("all rows", `document.querySelectorAll("tr[data-job]").length >= 4`)
	b.do(chromedp.KeyEvent("k"))
	b.await("another job", `!location.hash.endsWith("/`+bag+`")`)
	b.do(chromedp.KeyEvent("3"))
	b.await("the timeline", painted("timeline"))
	for _, key := range []string{"+", "+", kb.ArrowRight, kb.ArrowLeft, kb.ArrowDown, kb.ArrowUp, "-", "0", "r", "]", "["} {
		b.do(chromedp.KeyEvent(key))
	}
}

// mouse points at, clicks, turns and drags what the canvases show.
func (s *site) mouse(b *tab, bag, flow string) {
	s.t.Helper()
	use := func(id, events string) {
		s.t.Helper()
		read[bool](b, fmt.Sprintf(`(() => {
			const c = document.getElementById(%q), r = c.getBoundingClientRect();
			const at = (x, y) => ({clientX: r.x + x, clientY: r.y + y, bubbles: true, pointerId: 1});
			const move = (x, y) => c.dispatchEvent(new PointerEvent("pointermove", at(x, y)));
			const wheel = (x, y, by) => c.dispatchEvent(new WheelEvent("wheel", {...at(x, y), deltaY: by, cancelable: true}));
			c.setPointerCapture = () => {};
			const drag = (x, y, toX, toY) => { c.dispatchEvent(new PointerEvent("pointerdown", at(x, y))); move(toX, toY); c.dispatchEvent(new PointerEvent("pointerup", at(toX, toY))); };
			%s
			return true;
		})()`, id, events))
	}
	tip := func(text string) string {
		return fmt.Sprintf(`document.getElementById("tip").textContent.includes(%q)`, text)
	}
	choose := func(job string) {
		s.t.Helper()
		for range 10 {
			if read[bool](b, `location.hash.endsWith("/`+job+`")`) {
				return
			}
			b.do(chromedp.KeyEvent("["))
		}
		s.t.Fatalf("[ does not come to job %s", job)
	}
	b.do(chromedp.KeyEvent("1"))
	b.await("the nodes", painted("heat"))
	use("heat", `move(120, 10);`)
	b.await("the slots of n1", tip("n1: up, "))
	b.do(chromedp.KeyEvent("6"), chromedp.KeyEvent("4"))
	for range 4 {
		b.do(chromedp.KeyEvent("]"))
	}
	choose(flow)
	b.await("the graph", `document.getElementById("graph").getAttribute("aria-label") === "graph of 15 tasks"`)
	use("graph", `drag(300, 300, 320, 310); wheel(300, 300, -1); wheel(300, 300, 1);`)
	b.do(chromedp.KeyEvent("0"))
	b.await("the fetched task", fmt.Sprintf(`(() => { const c = document.getElementById("graph"), r = c.getBoundingClientRect(); for (let x = 0; x < 300; x += 20) for (let y = 0; y < r.height; y += 8) { c.dispatchEvent(new PointerEvent("pointermove", {clientX: r.x + x, clientY: r.y + y})); if (%s) return true; } return false; })()`, tip("task "+flow+".")))
	choose(bag)
	b.await("that a bag has no graph", tip("is a bag; choose a workflow"))
	b.do(chromedp.KeyEvent("3"))
	b.await("the bag", tip("Job "+bag))
	use("timeline", `wheel(600, 60, -1); drag(600, 60, 500, 40); wheel(600, 60, 1);`)
	b.do(chromedp.KeyEvent("0"))
	b.await("a task of the bag", fmt.Sprintf(`(() => { const c = document.getElementById("timeline"), r = c.getBoundingClientRect(); for (let x = 80; x < 800; x += 5) for (let y = 0; y < r.height; y += 8) { c.dispatchEvent(new PointerEvent("pointermove", {clientX: r.x + x, clientY: r.y + y})); if (%s) return true; } return false; })()`, tip("task "+bag+".")))
	choose("1") // a run, which has no tasks
	b.await("the nodes of a run", tip("Job 1 wall: 2 nodes with ranks"))
	b.await("the bars of a run", painted("timeline"))
}

// hostileNames holds the texts of the page against the names: no name became an element, and
// characters that turn or hide text are visible, as on a terminal.
func (s *site) hostileNames(b *tab, bag string) {
	s.t.Helper()
	read[bool](b, `(import("./lib.js").then(m => { window.lib = m; }), true)`)
	b.await("the script of texts", `!!window.lib`)
	sameTexts(b, "window.lib.clean")
	b.do(chromedp.KeyEvent("6"))
	b.await("the job", fmt.Sprintf(`[...document.querySelectorAll("tr[data-job='%s'] td.name")].some(e => e.textContent === %q)`, bag, ui.Clean(hostile)))
	elements := read[int](b, `document.querySelectorAll("img, main script, main b:not(figcaption b)").length`)
	if elements != 0 {
		s.t.Errorf("the page has %d elements that only a name can have made", elements)
	}
}

// sameTexts holds a function of a page against the texts of a terminal: characters that turn or
// hide text are visible.
func sameTexts(b *tab, clean string) {
	b.t.Helper()
	var wild []string
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar || r < 0x180 {
			wild = append(wild, "<"+string(r)+">")
		}
	}
	list, err := json.Marshal(wild)
	if err != nil {
		b.t.Fatal(err)
	}
	got := read[[]string](b, `(`+string(list)+`).map(s => `+clean+`(s))`)
	for i, w := range wild {
		if want := ui.Clean(w); got[i] != want {
			b.t.Errorf("%+q is %q on the page and %q on a terminal", w, got[i], want)
		}
	}
}

// TestTimelineOfManyBars moves and zooms in a timeline with 100,000 bars on 64 nodes.
func TestTimelineOfManyBars(t *testing.T) {
	s := newSite(t, "--nodes", "1", "--slots", "2")
	job := s.filch("submit", "--", "true")
	b := browse(t, 1200, 760)
	b.do(chromedp.Navigate(s.filch("dashboard") + "#timeline/" + job))
	b.await("the timeline", `window.frameTimes?.length > 0 && document.getElementById("age").textContent === "live"`)
	read[bool](b, `(Promise.all([import("./timeline.js"), import("./app.js")]).then(m => { window.page = m; }), true)`)
	b.await("the script of the timeline", `!!window.page`)
	read[int](b, fmt.Sprintf(`(() => {
		const total = %d, nodes = [], b = {begin: [], end: [], in: [], out: [], node: [], lane: [], task: [], state: []}, at = [];
		for (let i = 0; i < 64; i++) nodes.push({name: "n" + i, slots: 8, lanes: 8, lost: [], drain: []});
		for (let i = 0; i < total; i++) {
			const row = i %% 512, begin = at[row] || 0, end = begin + 1e5 + (i * 7919 %% 900000);
			at[row] = end + 1000;
			b.begin.push(begin); b.end.push(end); b.in.push(0); b.out.push(0); b.node.push(row >> 3); b.lane.push(row & 7); b.task.push(i); b.state.push(i %% 997 === 0 ? 1 : 0);
		}
		const order = b.begin.map((_, i) => i).sort((x, y) => b.begin[x] - b.begin[y]);
		for (const k in b) b[k] = order.map(i => b[k][i]);
		window.page[0].show({job: {id: 1, name: "many", exit_code: 0, nodes: []}, seconds: Math.max(...at) / 1e6, nodes, bars: b, bill: []}, window.page[1].state);
		window.frameTimes.length = 0;
		return total;
	})()`, spansDrawn))
	b.do(chromedp.Focus(chromedp.CSS("#timeline")))
	b.await("the bars", painted("timeline"))
	// All bars, deep inside, and back, moving at each step.
	keys := strings.Repeat("+", 12) + strings.Repeat("-", 12)
	for range framesMin/len(keys) + 1 {
		for _, k := range keys {
			for _, key := range []string{string(k), kb.ArrowRight} {
				before := read[int](b, `window.frameTimes.length`)
				b.do(chromedp.KeyEvent(key))
				b.await("a frame", fmt.Sprintf(`window.frameTimes.length > %d`, before))
			}
		}
	}
	times := read[[]float64](b, `window.frameTimes.slice().sort((a, b) => a - b)`)
	p95 := times[len(times)*95/100]
	t.Logf("%d frames of %d bars: median %.1f ms, p95 %.1f ms, most %.1f ms of script", len(times), spansDrawn, times[len(times)/2], p95, times[len(times)-1])
	if len(times) < framesMin || p95 > frameMax {
		t.Errorf("p95 of %d frames is %.1f ms, want at most %.0f", len(times), p95, frameMax)
	}
	b.picture("dashboard-bars")
	b.clean()
	manyNodes(b)
}

// manyNodes shows the views of nodes with 1,000 nodes that hold and steal.
func manyNodes(b *tab) {
	b.t.Helper()
	b.do(chromedp.KeyEvent("1"))
	b.await("the nodes", painted("heat"))
	read[bool](b, `(import("./nodes.js").then(m => { window.heat = m; }), true)`)
	b.await("the script of the nodes", `!!window.heat`)
	label := read[string](b, `(() => {
		const s = window.page[1].state, nodes = [];
		for (let i = 0; i < 1000; i++) nodes.push({name: "n" + i, state: i % 101 === 7 ? "dead" : i % 97 === 5 ? "draining" : "up", silent: i % 211 === 9, slots: 16,
			holders: [{id: 1 + i % 5, slots: i % 17, gathers: i % 13 === 0}], work: {busy: i % 17, ready: i, from: [], stolen_from: i % 3 ? [{victim: "n" + (i * 7 % 1000), won: i}] : []}});
		s.look = {self: "n0", nodes, jobs: s.look.jobs};
		window.heat.draw(s);
		return document.getElementById("heat").getAttribute("aria-label");
	})()`)
	if label != "1000 nodes; 10 dead" {
		b.t.Errorf("the nodes are %q", label)
	}
	b.picture("dashboard-many-nodes")
	b.clean()
}

// TestReportInABrowser opens the page of filch report.
func TestReportInABrowser(t *testing.T) {
	s := newSite(t, "--nodes", "2", "--slots", "2")
	job := s.filch("submit", "--wait", "-J", hostile, "--array", "1-40", "--", "sleep", "0.02")
	if job == "" {
		job = "1"
	}
	path := filepath.Join(s.dir, "r.html")
	s.filch("report", "1", "-o", path)
	b := browse(t, 1100, 900)
	b.do(chromedp.Navigate("file://" + path))
	b.await("the job", fmt.Sprintf(`document.querySelector("h1").textContent.includes(%q)`, "<img src=x onerror=alert(1)>"))
	b.await("the timeline", `[...document.querySelectorAll("canvas")].length === 2 && [...document.querySelectorAll("canvas")].every(c => c.width > 300)`)
	b.do(chromedp.Focus(chromedp.CSS("canvas[tabindex]")), chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("0"))
	sameTexts(b, "clean")
	b.clean()
	s.filch("run", "-J", hostile, "-n", "3", "sh", "-c", "sleep 0.$FILCH_RANK")
	s.filch("report", "last", "-o", path)
	b.do(chromedp.Navigate("file://" + path))
	b.await("the timeline of a run", `[...document.querySelectorAll("canvas")].length === 2 && document.getElementById("tip").textContent.startsWith("3 ranks.")`)
	b.await("the slots of a run", `[...document.querySelectorAll("td")].some(e => e.textContent === "ranks ran")`)
	b.picture("report-run")
	b.clean()
}
