package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
	"github.com/filch-hpc/filch/testbed/order"
)

// played are replays that every test run plays over four launchers, of the
// published files, where they are.
var played = []string{
	"dax/Epigenomics_24.xml", "dax/Montage_25.xml", "dax/CyberShake_30.xml",
	"wfformat/helloworld-forkjoin-10-chameleon.json", "wfformat/bacass-dirt02-001.json", "wfformat/montage-chameleon-2mass-005d-001.json",
}

// diamond is a replay of our own: a file that is there before, one that two
// read, an edge without a file.
const diamond = `<adag name="diamond" version="2.1">
<job id="a" name="cut" runtime="0.01"><uses file="start" link="input" size="1000"/><uses file="x" link="output" size="700000"/></job>
<job id="b" name="left" runtime="0.02"><uses file="x" link="input" size="700000"/><uses file="l" link="output" size="10"/></job>
<job id="c" name="right" runtime="0.01"><uses file="x" link="input" size="700000"/><uses file="r" link="output" size="0"/></job>
<job id="d" name="join" runtime="0"><uses file="l" link="input" size="10"/><uses file="r" link="input" size="0"/><uses file="end" link="output" size="1300000"/></job>
<job id="e" name="after" runtime="0"><uses file="start" link="input" size="1000"/><uses file="last" link="output" size="1"/></job>
<child ref="b"><parent ref="a"/></child><child ref="c"><parent ref="a"/></child>
<child ref="d"><parent ref="b"/><parent ref="c"/></child><child ref="e"><parent ref="d"/></child>
</adag>`

// TestReplays plays workflows as a user would, and checks from what the tasks
// themselves wrote that each dependency was honored and each file was right.
func TestReplays(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "diamond.dax")
	if err := os.WriteFile(own, []byte(diamond), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{own}
	data, err := filepath.Abs("../../../shared/data")
	if err == nil {
		_, err = os.Stat(data)
	}
	for _, name := range played {
		files = append(files, filepath.Join(data, name))
	}
	if err != nil {
		t.Logf("the published workflows are not here: %v", err)
		files = files[:1]
	}
	if os.Getenv("FILCH_PROOF") != "" && err == nil {
		all, _ := filepath.Glob(filepath.Join(data, "dax", "*.xml"))
		more, _ := filepath.Glob(filepath.Join(data, "wfformat", "*.json"))
		if files = append(append(files[:1], all...), more...); len(files) != 1+15+22 {
			t.Errorf("got %d published workflows, want 15 and 22", len(files)-1)
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { play(t, file, file != own) })
	}
}

func play(t *testing.T, file string, scaled bool) {
	o := workflow.Options{Name: file, TimeScale: 1, SizeScale: 1, YAML: yaml.JSON}
	args := []string{"workflow", "run", file, "--folder", filepath.Join(t.TempDir(), "folder")}
	if scaled {
		o.TimeScale, o.SizeScale = 0.0001, 0.00001
		args = append(args, "--time-scale", "0.0001", "--size-scale", "0.00001")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := workflow.Load(bytes.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := shared.filch(args...)
	cmd.Env = append(cmd.Env, "FILCH_REPLAY_TRACE="+trace)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	told, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	r, err := order.Check(g, told)
	if err != nil {
		t.Error(err)
	}
	t.Log(r)
	start, _ := g.Readers()
	for i, f := range g.Files {
		st, err := os.Stat(filepath.Join(args[4], f.Path))
		switch {
		case f.Writer >= 0 && start[i] == start[i+1] && (err != nil || st.Size() != max(f.Size, 0)):
			t.Errorf("the result %s did not come: %v", f.Path, err)
		case f.Writer >= 0 && start[i] < start[i+1] && err == nil:
			t.Errorf("%s came, which a task reads", f.Path)
		}
	}
}
