//go:build root

package dashboard

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboardShowsALostNode kills a launcher under a bag, gangs and a workflow. The pictures
// of the documents come from here: see scripts/pictures.
func TestDashboardShowsALostNode(t *testing.T) {
	s := newSite(t, "--nodes", "5", "--slots", "8")
	path := filepath.Join(s.dir, "mosaic.yaml")
	if err := os.WriteFile(path, []byte(mosaic()), 0o600); err != nil {
		t.Fatal(err)
	}
	flow := s.filch("workflow", "run", "--detach", path)
	bag := s.filch("submit", "-J", "dock", "--retries", "1", "--array", "1-900", "--", "sh", "-c", "sleep 0.$((4 + FILCH_TASK % 6)); test $((FILCH_TASK % 77)) != 7")
	s.filch("submit", "-J", "ring", "-n", "12", "--array", "1-8", "--", "sleep", "3")
	b := browse(t, 1200, 620)
	b.scheme("light")
	b.do(chromedp.Navigate(s.filch("dashboard") + "#nodes/" + bag))
	b.await("five nodes", `document.getElementById("heat")?.getAttribute("aria-label") === "5 nodes; 0 dead"`)
	b.do(chromedp.Evaluate[chromedp.Void](`import("./app.js").then(m => { window.page = m.state; }), undefined`))
	b.await("a part of the bag", `window.page?.look?.jobs.find(j => j.id === `+bag+`).tasks.ok > 100`)
	victim := filepath.Join(s.dir, "filch-"+strconv.Itoa(os.Getuid()), "fair-heron", "n4", "launcher.pid")
	text, err := os.ReadFile(victim)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.await("the dead node", `document.getElementById("heat").getAttribute("aria-label") === "5 nodes; 1 dead" && document.getElementById("totals").textContent.includes("1 not up")`)
	b.await("slots of the bag", `window.page.look.nodes.some(n => (n.holders || []).some(h => h.id === `+bag+`))`)
	b.picture("dashboard")
	b.do(chromedp.KeyEvent("4"))
	b.scheme("dark")
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.page.choose(%s)`, flow)))
	b.await("the graph", painted("graph")+` && document.getElementById("graph").getAttribute("aria-label") === "graph of 27 tasks"`)
	b.picture("dashboard-workflow")
	b.scheme("light")
	b.await("the end of the bag", `window.page.look.jobs.find(j => j.id === `+bag+`).exit_code !== null`)
	b.do(chromedp.KeyEvent("3"), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.page.choose(%s)`, bag)))
	b.await("the timeline", painted("timeline")+` && document.getElementById("tip").textContent.startsWith("Job `+bag+` dock: 900 tasks")`)
	b.picture("dashboard-timeline")
	b.clean()
}

// mosaic is a workflow of 27 tasks on five levels.
func mosaic() string {
	var w strings.Builder
	w.WriteString("filch: 1\nname: mosaic\ntasks:\n  fetch: {run: sleep 1}\n")
	for i := range 8 {
		fmt.Fprintf(&w, "  project-%d: {run: sleep %d, after: fetch}\n", i, 1+i%3)
		fmt.Fprintf(&w, "  fit-%d: {run: sleep 1, after: [project-%d, project-%d]}\n", i, i, (i+1)%8)
		fmt.Fprintf(&w, "  correct-%d: {run: sleep %d, after: fit-%d}\n", i, 2+i%4, i)
	}
	w.WriteString("  add:\n    run: sleep 60\n    after: [correct-0, correct-1, correct-2, correct-3, correct-4, correct-5, correct-6, correct-7]\n  view: {run: 'true', after: add}\n")
	return w.String()
}
