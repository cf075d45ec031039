package filch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file keeps the house as ARCHITECTURE.md draws it. A failure here says
// which rule a file breaks; change that page and the rule together.

const module = "github.com/filch-hpc/filch"

const (
	linesPerFileMax    = 500
	linesPerFuncMax    = 70
	linesPerPackageMax = 5600
	methodsPerTypeMax  = 60
)

// folders are the top-level ones, with what make leaves; other nouns belong in one of them.
var folders = []string{"bin", "cmd", "dht", "dist", "docs", "launcher", "mtc", "pool", "scripts", "slots", "stealer", "testbed", "varint"}

// pure packages touch nothing: no clock, socket, goroutine, file, lock, log or
// random source of their own.
var pure = []string{"", "cmd/filchtop/screen", "dht", "dht/members", "dht/roster", "dht/store", "dht/store/message", "dht/store/record", "varint", "launcher", "launcher/events", "launcher/node", "launcher/node/local", "launcher/node/origin", "launcher/node/ranks", "launcher/node/records", "launcher/node/request", "launcher/node/tasks", "launcher/node/ties", "launcher/pmi", "launcher/slurmenv", "launcher/topology", "mtc", "mtc/before", "mtc/ends", "mtc/graph", "mtc/lines", "mtc/message", "mtc/mutants", "mtc/plan", "mtc/policy", "mtc/queue", "mtc/record", "mtc/replica", "mtc/report", "mtc/search", "mtc/submit", "mtc/tokens", "mtc/workflow", "mtc/workflow/yaml", "pool", "slots", "stealer"}

// worldly packages are closed to pure packages. mtc/workflow reads what it parses
// through an io.Reader, which is not among them.
var worldly = []string{
	"context", "crypto/rand", "io/ioutil", "log", "math/rand", "math/rand/v2", "golang.org/x/sys/unix", "net", "os", "runtime/debug", "sync", "syscall", "testing/synctest", "unsafe",
}

// clocks are the functions of package time that a pure package must not call.
var clocks = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// house lists, for each package, the packages of this module that it may import: one
// line each, "." is the root, "*" every package but the mains and the testbed, and
// "package/..." speaks for the packages below that have no line of their own.
const house = `
cmd/filch: *
cmd/filch/...: *
cmd/filchd: *
cmd/filchd/...: *
cmd/filchtop: *
cmd/filchtop/...: *
dht: . varint
dht/disk:
dht/kad: . dht/members dht/overlay
dht/members: .
dht/overlay: . dht/members
dht/overlay/...: . dht/overlay dht/overlay/mem
dht/roster: . dht varint
dht/store: . dht dht/roster dht/store/message dht/store/record varint
dht/store/message: . dht dht/roster dht/store/record varint
dht/store/record: . dht varint
launcher: . dht dht/store varint launcher/events mtc mtc/message mtc/record mtc/report stealer
launcher/client: . dht launcher launcher/config/place launcher/wire mtc/submit
launcher/config: . launcher/config/place launcher/topology mtc/policy mtc/workflow/yaml slots
launcher/config/place: . launcher/topology
launcher/daemon: *
launcher/daemon/api: . dht launcher launcher/client launcher/events launcher/events/ring launcher/spec launcher/wire mtc/record mtc/submit
launcher/daemon/children: . launcher launcher/daemon/dataplane launcher/daemon/inputs launcher/daemon/staging launcher/events launcher/output launcher/proc launcher/slurmenv launcher/topology launcher/watch launcher/wire mtc/record mtc/workflow
launcher/daemon/dashboard: .
launcher/daemon/dataplane: . dht/overlay launcher launcher/daemon/inputs launcher/output launcher/watch launcher/wire
launcher/daemon/inputs: . launcher launcher/node launcher/watch
launcher/daemon/metrics: . launcher/daemon/query
launcher/daemon/peers: . dht/overlay launcher launcher/config/place launcher/daemon/inputs launcher/node launcher/wire
launcher/daemon/query: . dht dht/disk dht/overlay dht/store launcher launcher/config/place launcher/daemon/dataplane launcher/daemon/inputs launcher/daemon/peers launcher/daemon/staging launcher/events/ring launcher/glance launcher/mirror launcher/node/records launcher/node/tasks launcher/output launcher/proc launcher/wire mtc/policy mtc/queue mtc/record
launcher/daemon/staging: . dht/overlay launcher launcher/config/place launcher/daemon/inputs launcher/events launcher/output launcher/proc launcher/watch launcher/wire mtc/workflow
launcher/events: . varint
launcher/events/ring: . launcher/events
launcher/history: . launcher
launcher/mirror: . launcher/config/place mtc/queue
launcher/node: . launcher launcher/node/local launcher/node/origin launcher/node/ranks launcher/node/records launcher/node/tasks slots
launcher/node/request: . launcher launcher/node/local stealer
launcher/node/origin: . dht launcher launcher/events launcher/node/local launcher/node/ranks launcher/node/records launcher/node/request launcher/node/tasks launcher/node/ties mtc/before mtc/policy mtc/queue mtc/record slots stealer
launcher/node/local: . launcher launcher/events mtc/policy mtc/record slots stealer
launcher/node/ranks: . launcher launcher/events launcher/node/local slots
launcher/node/records: . dht dht/store dht/store/message varint launcher launcher/node/local mtc/record
launcher/node/tasks: . dht dht/store launcher launcher/events launcher/node/local launcher/node/records mtc mtc/before mtc/message mtc/policy mtc/queue mtc/record mtc/report mtc/submit slots
launcher/node/ties: . launcher
launcher/output: . varint
launcher/pmi: .
launcher/pmi/...: . launcher/pmi
launcher/glance: . launcher launcher/node launcher/node/tasks launcher/wire
launcher/pools: . dht launcher/client launcher/wire pool
launcher/pmix: . launcher/config/place launcher/pmi
launcher/proc: . launcher launcher/wire
launcher/proc/keeper: . launcher launcher/config/place launcher/output launcher/pmi launcher/pmix launcher/proc launcher/slurmenv launcher/topology launcher/wire
launcher/proc/runner: . launcher launcher/output launcher/proc launcher/wire
launcher/slurmenv: .
launcher/spec: . launcher launcher/slurmenv mtc/record
launcher/topology: .
launcher/watch: . launcher launcher/events launcher/events/ring
launcher/wire: . dht launcher mtc/queue
mtc: . mtc/before mtc/ends mtc/graph mtc/lines mtc/message mtc/mutants mtc/plan mtc/policy mtc/queue mtc/record mtc/replica mtc/report mtc/search mtc/submit mtc/tokens
mtc/mutants: mtc/before mtc/graph mtc/lines mtc/plan mtc/policy mtc/queue mtc/record mtc/replica mtc/search
mtc/before: . mtc/record
mtc/ends: . mtc/message mtc/policy mtc/queue mtc/record
mtc/graph: . mtc/policy mtc/record
mtc/lines: . mtc/policy mtc/record
mtc/plan: . mtc/graph mtc/policy mtc/record
mtc/queue: . mtc/policy mtc/record
mtc/message: . mtc/policy mtc/record
mtc/policy: . mtc/record
mtc/record: . varint
mtc/report: . mtc/record
mtc/replica: . mtc/message mtc/policy mtc/queue mtc/record
mtc/search: . mtc/message mtc/policy mtc/record
mtc/submit: . mtc/graph mtc/policy mtc/record
mtc/tokens: . mtc/message mtc/policy mtc/queue mtc/record
mtc/workflow: .
mtc/workflow/replay: . mtc/workflow
mtc/workflow/yaml:
pool: .
scripts/...: *
slots: .
stealer: .
testbed/...: * testbed
testbed/sim/...: . varint dht dht/members dht/roster dht/store dht/store/message launcher launcher/node launcher/node/records mtc mtc/message mtc/policy mtc/record mtc/report mtc/submit mtc/workflow slots stealer testbed
testbed/sim/disk: . dht/store testbed/sim/engine
testbed/sim/engine: .
testbed/sim/instance: . dht dht/members dht/store dht/store/message launcher launcher/glance launcher/pools launcher/wire pool launcher/node launcher/node/origin launcher/node/records launcher/node/tasks mtc mtc/message mtc/policy mtc/record mtc/submit slots stealer testbed/sim/disk testbed/sim/engine testbed/sim/peril
testbed/sim/makespan: . mtc mtc/policy mtc/record mtc/submit mtc/workflow testbed/sim/engine testbed/sim/tasks
testbed/sim/pool: . pool
testbed/sim/peril: . dht dht/store
testbed/sim/planted:
testbed/sim/ranges:
testbed/sim/store: . dht dht/store dht/store/message testbed/sim/disk testbed/sim/engine
varint:
`

// cmdArrows lists, for each part of cmd/filch, the parts that it may import.
var cmdArrows = map[string][]string{
	"cmd/filch/batch":     {"cli", "ui"},
	"cmd/filch/bcast":     {"ui"},
	"cmd/filch/campaign":  {"batch", "bringup", "cli", "ui"},
	"cmd/filch/columns":   {"ui"},
	"cmd/filch/cli":       {"rlimit", "ui"},
	"cmd/filch/deps":      {"cli", "tasklist", "taskrecords", "ui"},
	"cmd/filch/forecast":  {"cli", "taskrecords", "ui"},
	"cmd/filch/manual":    {"cli", "ui"},
	"cmd/filch/onend":     {"cli", "ui"},
	"cmd/filch/halt":      {"cli", "ui"},
	"cmd/filch/progress":  {"cli", "ui"},
	"cmd/filch/runclient": {"bcast", "cli", "deps", "onend", "licenses", "ui"},
	"cmd/filch/shims":     {"cli", "deps", "runclient", "taskrecords", "ui"},
	"cmd/filch/eventlog":  {"cli", "ui"},
	"cmd/filch/logs":      {"cli", "ui"},
	"cmd/filch/scrape":    {"cli", "ui"},
	"cmd/filch/stats":     {"cli", "ui"},
	"cmd/filch/dashboard": {"cli", "ui"},
	"cmd/filch/top":       {"cli", "filchd", "ui"},
	"cmd/filchtop":        {"ui"},
	"cmd/filchtop/screen": {"ui"},
	"cmd/filch/tasklist":  {"cli", "taskrecords", "ui"},
	"cmd/filch/tasks":     {"bcast", "cli", "columns", "deps", "filchd", "halt", "logs", "needs", "onend", "licenses", "progress", "script", "tasklist", "taskrecords", "ui"},
	"cmd/filch/clocks":    {"cli"}, "cmd/filch/script": {"cli", "ui"},
	"cmd/filch/report":  {"cli", "clocks", "eventlog", "tasklist", "taskrecords", "ui"},
	"cmd/filch/trace":   {"cli", "clocks", "eventlog", "taskrecords", "ui"},
	"cmd/filch/bringup": {"alloc", "cli", "filchd", "ui"},
}

// arrows is house, by package; the root is "" as in an import path.
func arrows() map[string][]string {
	all := map[string][]string{"": {}}
	for line := range strings.Lines(strings.TrimSpace(house)) {
		pkg, to, _ := strings.Cut(line, ":")
		allowed := strings.Fields(to)
		if i := slices.Index(allowed, "."); i >= 0 {
			allowed[i] = ""
		}
		all[pkg] = allowed
	}
	return all
}

// keepers says which packages alone import a module from outside.
var keepers = map[string][]string{
	"charm.land/":               {"cmd/filchtop"},
	"github.com/charmbracelet/": {"cmd/filchtop/screen"},
	"github.com/libp2p/":        {"dht/overlay", "dht/kad", "testbed/bench/kadnode"},
	"github.com/multiformats/":  {"dht/overlay", "dht/kad"},
	"github.com/spf13/viper":    {"launcher/config"},
	"github.com/vmihailenco/":   {"launcher/wire"},
	"go.yaml.in/":               {"mtc/workflow/yaml"},
	"google.golang.org/":        {"dht/kad"},
}

// unfinished marks what belongs in an issue. Split, so as not to find itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// source is one parsed Go file.
type source struct {
	path string // from the root, with slashes
	pkg  string // its folder, "" for the root
	test bool
	file *ast.File
	fset *token.FileSet
}

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

func (s source) errorf(t *testing.T, p token.Pos, format string, args ...any) {
	t.Helper()
	t.Errorf("%s:%d: "+format, append([]any{s.path, s.line(p)}, args...)...)
}

// sources parses every Go file of the module, under whatever build tag.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		pkg := path.Dir(filepath.ToSlash(name))
		if pkg == "." {
			pkg = ""
		}
		all = append(all, source{
			path: filepath.ToSlash(name), pkg: pkg, file: file, fset: fset,
			test: strings.HasSuffix(name, "_test.go"),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTidyFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(folders, e.Name()) {
			t.Errorf("%s/: not a folder of the house (%s)", e.Name(), strings.Join(folders, ", "))
		}
	}
}

func TestTidyImports(t *testing.T) {
	arrows := arrows()
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !s.test {
				checkArrow(t, arrows, s, imp.Pos(), target)
			}
			if !s.test && slices.Contains(pure, s.pkg) && isWorldly(target) {
				s.errorf(t, imp.Pos(), "%s is pure and must not import %s", pkgName(s.pkg), target)
			}
			for prefix, pkgs := range keepers {
				if strings.HasPrefix(target, prefix) && !slices.Contains(pkgs, s.pkg) {
					s.errorf(t, imp.Pos(), "only %s may import %s", strings.Join(pkgs, " and "), target)
				}
			}
		}
	}
}

// TestTidyStaleArrows finds what the map allows and no file of the package uses. Lines
// with a "*" and those of a whole folder allow more than is used.
func TestTidyStaleArrows(t *testing.T) {
	used := map[string]bool{} // pkg and target, with a space between
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			target, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if to, ours := strings.CutPrefix(target, module); ours && !s.test {
				used[s.pkg+" "+strings.TrimPrefix(to, "/")] = true
			}
		}
	}
	for pkg, allowed := range arrows() {
		if strings.HasSuffix(pkg, "/...") || slices.Contains(allowed, "*") {
			continue
		}
		for _, to := range allowed {
			if !used[pkg+" "+to] {
				t.Errorf("the arrow from %s to %s is not used", pkgName(pkg), pkgName(to))
			}
		}
	}
}

func isWorldly(target string) bool {
	return slices.ContainsFunc(worldly, func(w string) bool {
		return target == w || strings.HasPrefix(target, w+"/")
	})
}

func pkgName(pkg string) string {
	if pkg == "" {
		return "the root package"
	}
	return pkg
}

// checkArrow reports an import of this module that the map does not draw.
func checkArrow(t *testing.T, arrows map[string][]string, s source, p token.Pos, target string) {
	t.Helper()
	to, ours := strings.CutPrefix(target, module)
	if !ours {
		return
	}
	to = strings.TrimPrefix(to, "/")
	allowed, known := arrows[s.pkg]
	for dir := s.pkg; !known && dir != "." && dir != ""; dir = path.Dir(dir) {
		allowed, known = arrows[dir+"/..."]
	}
	if !known {
		s.errorf(t, p, "%s is not on the map of the house", s.pkg)
		return
	}
	top, _, _ := strings.Cut(to, "/")
	ok := slices.Contains(allowed, to)
	switch top {
	case "testbed":
		ok = ok || slices.Contains(allowed, "testbed")
	case "cmd":
		// A main imports its own parts, and the parts import those named for them.
		ok = ok || strings.HasPrefix(to, s.pkg+"/") || slices.Contains(cmdArrows[s.pkg], path.Base(to))
	default:
		ok = ok || slices.Contains(allowed, "*")
	}
	if !ok {
		s.errorf(t, p, "%s must not import %s", pkgName(s.pkg), target)
	}
}

func TestTidyPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				s.errorf(t, n.Pos(), "a pure pkg starts no goroutine")
			case *ast.SelectStmt:
				s.errorf(t, n.Pos(), "a pure pkg waits for no channel")
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					s.errorf(t, n.Pos(), "a pure pkg reads no clock (time.%s)", n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestTidySizes(t *testing.T) {
	for _, s := range sources(t) {
		if n := s.line(s.file.FileEnd); n > linesPerFileMax {
			t.Errorf("%s: %d lines, at most %d", s.path, n, linesPerFileMax)
		}
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if l := s.line(n.End()) - s.line(n.Pos()) + 1; l > linesPerFuncMax {
					s.errorf(t, n.Pos(), "%s has %d lines, at most %d", n.Name.Name, l, linesPerFuncMax)
				}
			}
			return true
		})
	}
}

func TestTidyDocs(t *testing.T) {
	docs := map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if _, seen := docs[s.pkg]; !seen {
			docs[s.pkg] = ""
		}
		if s.file.Doc != nil {
			docs[s.pkg] += s.file.Doc.Text()
		}
	}
	for pkg, doc := range docs {
		if strings.TrimSpace(doc) == "" {
			t.Errorf("%s has no package comment", pkgName(pkg))
			continue
		}
		if head, _, _ := strings.Cut(doc, "\n\n"); !strings.Contains(head, ".") {
			t.Errorf("%s: the package comment does not begin with a sentence: %q", pkgName(pkg), head)
		}
	}
}

func TestTidyComments(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				if m := unfinished.FindString(c.Text); m != "" {
					s.errorf(t, c.Pos(), "%s in a comment: what is unfinished belongs in an issue", m)
				}
			}
		}
	}
}

// TestTidySleeps allows a pause in a test where it polls (inside a loop) and
// where time is not real (inside synctest.Test), and nowhere else.
func TestTidySleeps(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		var visit func(n ast.Node, free bool)
		visit = func(root ast.Node, free bool) {
			ast.Inspect(root, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ForStmt:
					if n != root {
						visit(n, true)
						return false
					}
				case *ast.CallExpr:
					sel, ok := n.Fun.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					id, _ := sel.X.(*ast.Ident)
					if id != nil && id.Name == "synctest" && n != root {
						visit(n, true)
						return false
					}
					if id != nil && id.Name == "time" && sel.Sel.Name == "Sleep" && !free {
						s.errorf(t, n.Pos(), "a fixed sleep in a test: poll with a deadline, or use synctest")
					}
				}
				return true
			})
		}
		visit(s.file, false)
	}
}

// TestTidyLinks looks at all that the thin client links: Go runs every linked
// package's init before main, and libp2p's take 5 ms.
func TestTidyLinks(t *testing.T) {
	if _, err := os.Stat("cmd/filch"); err != nil {
		t.Skip("cmd/filch does not exist")
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/filch").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	heavy := []string{"github.com/libp2p/", "github.com/multiformats/", "github.com/spf13/viper", "go.yaml.in/", "gopkg.in/yaml", module + "/mtc/workflow/yaml", module + "/dht/overlay", module + "/dht/kad", module + "/launcher/daemon"}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, h := range heavy {
			if strings.HasPrefix(dep, h) {
				t.Errorf("cmd/filch links %s", dep)
			}
		}
	}
}
