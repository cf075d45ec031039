package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// node makes a task of a workflow for a test.
func graphNode(t *testing.T, name, script string, parents []int32, in, out []launcher.TaskFile) record.GraphNode {
	t.Helper()
	b, err := wire.Marshal(&launcher.TaskItem{Argv: []string{"/bin/sh", "-c", script}, Inputs: in, Outputs: out})
	if err != nil {
		t.Fatal(err)
	}
	return record.GraphNode{Name: name, Parents: parents, Body: append([]byte{launcher.PayloadItem}, b...)}
}

// runGraph runs a workflow from node i to its end.
func (c *cluster) runGraph(i int, folder string, nodes []record.GraphNode) launcher.TaskNews {
	c.t.Helper()
	body, err := wire.Marshal(&launcher.TaskOrder{
		Name: "graph", Env: os.Environ(), Cwd: "/", Umask: 0o22, KillWait: time.Second,
		Graph: &launcher.TaskGraph{Origin: filch.NodeName(fmt.Sprintf("n%d", i+1)), Folder: folder},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s := &submit.Job{Name: "graph", Total: int32(len(nodes)), Nodes: nodes, Follow: true}
	s.Spec.Body, s.Spec.Each.Slots, s.Spec.Payloads, s.Spec.OnFail, s.Spec.Retries = append([]byte{launcher.BodyOrder}, body...), 1, true, record.FailSkip, 1
	tasks, err := c.nodes[i].dial().SubmitTasks(s)
	if err != nil {
		c.t.Fatal(err)
	}
	defer tasks.Close()
	patience := time.AfterFunc(20*time.Second, tasks.Close)
	defer patience.Stop()
	for {
		news, err := tasks.Next()
		if err != nil {
			c.t.Fatal(err)
		}
		switch news.What {
		case launcher.TasksRefused:
			c.t.Fatal(news.Err)
		case launcher.TasksFinished:
			return news
		}
	}
}

// file is a file of several parts.
func (c *cluster) file(name string, size int) (folder string, text []byte) {
	c.t.Helper()
	folder = filepath.Join(c.base, "user")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		c.t.Fatal(err)
	}
	text = bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return folder, text
}

func TestFilesGoFromNodeToNode(t *testing.T) {
	c := newCluster(t, 3, 1)
	folder, text := c.file("start", 3*wire.PartBytes+160)
	begin := []launcher.TaskFile{{Path: "start", Writer: -1, Size: int64(len(text))}}
	nodes := []record.GraphNode{graphNode(t, "first", "cat start start > a", nil, begin, []launcher.TaskFile{{Path: "a", Writer: 0}})}
	var all []launcher.TaskFile
	var parents []int32
	const wide = 9
	for i := int32(1); i <= wide; i++ {
		out := launcher.TaskFile{Path: fmt.Sprintf("sub/b%d", i), Writer: i}
		nodes = append(nodes, graphNode(t, out.Path, "sleep 0.2; cat start a | sha256sum > "+out.Path+"; echo $FILCH_NODE >> "+out.Path,
			[]int32{0}, append(begin[:1:1], launcher.TaskFile{Path: "a", Writer: 0}), []launcher.TaskFile{out}))
		all, parents = append(all, out), append(parents, i)
	}
	last := int32(len(nodes))
	nodes = append(nodes, graphNode(t, "last", "cat sub/*; cat sub/* > end", parents, all, []launcher.TaskFile{{Path: "end", Writer: last}}))
	news := c.runGraph(1, folder, nodes)
	if news.Tally.OK != int32(len(nodes)) {
		t.Fatalf("got %+v, want %d tasks that ended well", news.Tally, len(nodes))
	}
	list, _ := json.Marshal([]wire.CollectFile{{Task: last, Path: "end"}, {Task: 0, Path: "a"}})
	var info wire.CollectInfo
	if err := c.ask(0, &info, wire.VerbCollect, news.Job.String(), folder, string(list)); err != nil || info.Files != 2 {
		t.Fatalf("got %+v, %v", info, err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "end"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x", sha256.Sum256(bytes.Repeat(text, 3)))
	if n := strings.Count(string(got), want); n != wide {
		t.Errorf("%d of %d tasks read what they should:\n%s", n, wide, got)
	}
	ran := 0
	for i := range c.nodes {
		if strings.Contains(string(got), fmt.Sprintf("n%d\n", i+1)) {
			ran++
		}
	}
	var first launcher.Task
	if err := c.ask(2, &first, wire.VerbTask, news.Job.String(), "0"); err != nil || first.Bytes != int64(2*len(text)) {
		t.Errorf("the end of the first task tells %d bytes, %v; its file has %d", first.Bytes, err, 2*len(text))
	}
	if ran < 2 {
		t.Errorf("only %d node ran tasks:\n%s", ran, got)
	}
	if err := c.ask(2, &struct{}{}, wire.VerbUnstage, news.Job.String()); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.nodes {
		if left, _ := filepath.Glob(filepath.Join(r.cfg.Dir.Path(), "stage", "*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// A file that cannot be had fails the task, whose output says which and from
// where.
func TestFileThatCannotBeBrought(t *testing.T) {
	c := newCluster(t, 1, 1)
	folder, _ := c.file("start", 16)
	none := []launcher.TaskFile{{Path: "none", Writer: -1, Size: -1}}
	news := c.runGraph(0, folder, []record.GraphNode{graphNode(t, "a", "true", nil, none, nil)})
	if news.Tally.Failed != 1 {
		t.Errorf("got %+v, want one failure", news.Tally)
	}
	var chunk wire.OutputChunk
	if err := c.ask(0, &chunk, wire.VerbOutput, "n1", news.Job.String(), wire.OutputTasks, "0-0", "", "1000"); err != nil || len(chunk.Pieces) != 2 {
		t.Fatalf("got %+v, %v, want what two attempts said", chunk, err)
	}
	if got := string(chunk.Pieces[1].Data); !strings.Contains(got, `cannot get "none" on node n1`) || chunk.Pieces[1].Attempt != 2 {
		t.Errorf("got %q of attempt %d", got, chunk.Pieces[1].Attempt)
	}
}
