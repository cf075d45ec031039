package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/launcher"
)

// hostile is a name that would end the data of the page, and turn the direction of text.
const hostile = "</script><script>alert(1)</script><!--\u2028\u202e\x1b[31m"

// A name cannot leave the element of the data, and comes back as it was.
func TestHostileNamesStayData(t *testing.T) {
	p := &page{Job: launcher.JobInfo{Name: hostile}, Slowest: []tasklist.Row{{Command: hostile, Stderr: hostile}}}
	b, err := p.html()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte(`id="data">`))
	data, _, _ := bytes.Cut(rest, []byte("</script>"))
	var got page
	if err := json.Unmarshal(data, &got); err != nil || got.Job.Name != hostile || got.Slowest[0].Stderr != hostile {
		t.Errorf("got %q, %v", got.Job.Name, err)
	}
	if n := bytes.Count(b, []byte("<script")); n != 2 {
		t.Errorf("the page has %d scripts, want its own 2", n)
	}
}

// The page needs no other file, and its script makes no HTML out of texts.
func TestPageStandsAlone(t *testing.T) {
	for _, bad := range []string{"http:", "https:", "src=", "href=", "url(", "innerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if bytes.Contains(pageHTML, []byte(bad)) {
			t.Errorf("the page has %q", bad)
		}
	}
	if bytes.Count(pageHTML, []byte(mark)) != 1 {
		t.Errorf("the page does not have one place for the data")
	}
}

// The columns of the timeline are lists of numbers.
func TestColumnsAreNumbers(t *testing.T) {
	k := &collector{page: page{Nodes: make([]nodeRow, 1)}, work: work{Begin: 1000, End: 9000, Nodes: make([]nodeTime, 1), Each: 1}}
	k.ends = []ended{
		{Bar: bar{Begin: 2000, End: 4000, Slots: 1}, Task: 7, State: filch.OK},
		{Bar: bar{Begin: 3000, End: 9000, Slots: 1}, Task: 8, State: filch.Failed},
		{Bar: bar{Begin: 4000, End: 5000, Slots: 1}, Task: 9, State: filch.Cancelled},
	}
	k.sumUp()
	b, err := json.Marshal(k.page.Bars)
	want := `{"begin":[1,2,3],"end":[3,8,4],"in":[0,0,0],"out":[0,0,0],"node":[0,0,0],"lane":[0,1,0],"task":[7,8,9],"state":[0,1,2]}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v\nwant %s", b, err, want)
	}
	if k.page.tasks != 3 {
		t.Errorf("%d tasks, want 3", k.page.tasks)
	}
	if n := k.page.Nodes[0]; n.Lanes != 2 || n.Tasks != 3 || n.Slots != 2 {
		t.Errorf("got %+v", n)
	}
}

// A job without an ended task has empty columns: null would break the script.
func TestEmptyColumnsAreLists(t *testing.T) {
	k := &collector{}
	k.sumUp()
	if b, err := json.Marshal(k.page.Bars); err != nil || bytes.Contains(b, []byte("null")) {
		t.Errorf("got %s, %v", b, err)
	}
}

// A private file stays private.
func TestWriteKeepsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.html")
	link := path + ".link"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := (&page{}).write(link); err != nil {
		t.Fatal(err)
	}
	s, err := os.Stat(path)
	if err != nil || s.Mode().Perm() != 0o600 || s.Size() == 0 {
		t.Errorf("got %v, %v", s, err)
	}
	if l, err := os.Lstat(link); err != nil || l.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", l, err)
	}
}

// A page that cannot be written leaves the page before it.
func TestAFailedWriteLeavesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.html")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&page{Bound: 1}).write(path); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "<!doctype html>") {
		t.Errorf("got %.20q, %v", b, err)
	}
	if err := (&page{}).write("/dev/full"); err == nil {
		t.Error("a full disk is no error")
	}
	if err := (&page{}).write(filepath.Join(path, "in-a-file")); err == nil {
		t.Error("a path below a file is no error")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".filch-report-*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
