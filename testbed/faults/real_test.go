//go:build root

package faults

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// realWait is how long one piece of real work may take.
const realWait = 10 * time.Minute

// policies are those that real work is done under, with a threshold that lets
// the last two weigh files of this size.
func policies() []string {
	all := []string{"mlb", "mdl", "rlds:threshold=1M,guess=100ms", "flds:threshold=1M,guess=100ms,tt=500ms"}
	if rig.Full() {
		return all
	}
	return all[:1] // which sends most files from host to host
}

// TestReal has four launchers on hosts without a common folder do work of
// programs that nobody here wrote, under each policy; what comes out is, bit by
// bit, what the same programs give one after the other.
func TestReal(t *testing.T) {
	for program, from := range map[string]string{
		"blastn": "ncbi-blast+", "makeblastdb": "ncbi-blast+", "povray": "povray", "mProject": "montage", "mViewer": "montage",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed: apt-get install -y --no-install-recommends %s povray-examples povray-includes", program, from)
		}
	}
	c := up(t, 4, nil)
	blast := c.blast(rig.Sized(20, 200))
	frames := rig.Sized(4, 30)
	film := filmOf(frames)
	oracle := c.folder("serial-film")
	serial(t, oracle, film)
	sky := c.folder("serial-mosaic")
	m := newMosaic(t, sky, rig.Sized(2, 4))
	for _, policy := range policies() {
		name, _, _ := strings.Cut(policy, ":")
		t.Run(name, func(t *testing.T) {
			c := &cluster{c.With(t)}
			c.Must(0, "policy", policy)
			blast.run(c, name)
			c.staged("film", name, film, nil, oracle)
			c.staged("mosaic", name, m.steps, m.inputs, sky)
		})
	}
}

// folder makes an empty folder.
func (c *cluster) folder(name string) string {
	c.T.Helper()
	dir := filepath.Join(c.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.T.Fatal(err)
	}
	return dir
}

// long runs a filch command that takes its time.
func (c *cluster) long(args ...string) string {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), realWait)
	defer cancel()
	var out, said bytes.Buffer
	cmd := c.Command(ctx, 0, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		c.Logs()
		c.T.Fatalf("filch %v: %v\n%s%s", args, err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String())
}

// queries are pieces of a database of random nucleotides, with mutations, and
// what blastn finds for them one after the other.
type queries struct {
	dir  string
	n    int
	want [sha256.Size]byte
}

func (c *cluster) blast(n int) *queries {
	t := c.T
	t.Helper()
	q := &queries{dir: c.folder("blast"), n: n}
	random := rand.New(rand.NewPCG(11, 0))
	base := func() byte { return "ACGT"[random.IntN(4)] }
	var db bytes.Buffer
	seqs := make([][]byte, 200)
	for i := range seqs {
		for range 5000 {
			seqs[i] = append(seqs[i], base())
		}
		fmt.Fprintf(&db, ">s%d\n%s\n", i, seqs[i])
	}
	files := map[string][]byte{"db.fa": db.Bytes()}
	for i := range n {
		from := seqs[random.IntN(len(seqs))]
		at := random.IntN(len(from) - 400)
		s := slices.Clone(from[at : at+400])
		for range 20 {
			s[random.IntN(len(s))] = base()
		}
		files[fmt.Sprintf("q_%d.fa", i)] = fmt.Appendf(nil, ">q%d\n%s\n", i, s)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(q.dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) []byte {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = q.dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return out
	}
	run("makeblastdb -in db.fa -dbtype nucl -out db")
	h := sha256.New()
	for i := range n {
		found := run("FILCH_TASK=" + fmt.Sprint(i) + "; " + blastLine)
		if len(found) == 0 {
			t.Fatalf("blastn finds nothing for query %d", i)
		}
		h.Write(found)
	}
	h.Sum(q.want[:0])
	return q
}

const blastLine = "blastn -db db -query q_$FILCH_TASK.fa -outfmt 6 -evalue 1e-10 -num_threads 1"

// run does the queries as a bag; what they print is brought from all nodes.
func (q *queries) run(c *cluster, policy string) {
	c.T.Helper()
	began := time.Now()
	job := c.long("submit", "--wait", "--array", fmt.Sprintf("0-%d", q.n-1), "-D", q.dir, "--", "sh", "-c", blastLine)
	took := time.Since(began)
	out := filepath.Join(c.Dir, "found-"+policy)
	c.Must(0, "export", job, out)
	h := sha256.New()
	for i := range q.n {
		b, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("%d.stdout", i)))
		if err != nil {
			c.T.Fatal(err)
		}
		h.Write(b)
	}
	if got := h.Sum(nil); !bytes.Equal(got, q.want[:]) {
		c.T.Errorf("what %d queries of blastn found has the sum %x, one after the other %x", q.n, got, q.want)
	}
	c.T.Logf("figure: %s: %d blastn queries as in serial, %.1f s", policy, q.n, took.Seconds())
}

// filmOf renders frames of POV-Ray's own example, as bitmaps: a PNG
// holds the time of day. The last process sums them up.
func filmOf(frames int) (film []process) {
	last := process{Name: "sums", Run: "sha256sum f_*.bmp >sums", Outputs: []string{"sums"}}
	for k := range frames {
		frame := fmt.Sprintf("f_%03d.bmp", k)
		film = append(film, process{
			Name: fmt.Sprintf("frame_%d", k), Outputs: []string{frame},
			Run: fmt.Sprintf("povray +I/usr/share/doc/povray/examples/animations/camera2/camera2.pov +L/usr/share/povray-3.7/include +W160 +H120 +A0.3 +K%.4f -D +WT1 +FB +O%s", float64(k)/float64(frames), frame),
		})
		last.Inputs = append(last.Inputs, frame)
	}
	return append(film, last)
}

// staged runs a workflow in a folder that only the first host has; whatever its
// processes wrote must be what is in want.
func (c *cluster) staged(name, policy string, steps []process, inputs []string, want string) {
	t := c.T
	t.Helper()
	dir := c.folder(name + "-" + policy)
	file := filepath.Join(dir, name+".json")
	if err := os.WriteFile(file, workflowOf(t, name, steps), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, in := range inputs {
		b, err := os.ReadFile(filepath.Join(want, in))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, in), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range c.Hosts[1:] {
		if out, err := h.Command(t.Context(), "mount", "-t", "tmpfs", "tmpfs", dir).CombinedOutput(); err != nil {
			t.Fatalf("hide the folder from %s: %v: %s", h.Name, err, out)
		}
		if seen := c.Must(0, "run", "-n", "1", "-w", h.Name, "ls", "-A", dir); seen != "" {
			t.Fatalf("host %d sees the folder: %s", i+2, seen)
		}
	}
	before := c.received()
	began := time.Now()
	job := c.long("workflow", "run", "--all", file)
	took := time.Since(began)
	for i := range steps {
		f := steps[i].Outputs[0]
		got, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Error(err)
			continue
		}
		have, err := os.ReadFile(filepath.Join(want, f))
		if err != nil || len(have) == 0 {
			t.Fatalf("the serial run left %d bytes of %s: %v", len(have), f, err)
		}
		if !bytes.Equal(got, have) {
			t.Errorf("%s has the sum %x, one after the other %x", f, sha256.Sum256(got), sha256.Sum256(have))
		}
	}
	nodes := map[string]int{}
	for i := range steps {
		nodes[string(c.task(job, i).Node)]++
	}
	if len(nodes) < 2 && name == "mosaic" && policy == "mlb" {
		t.Errorf("all of %s ran on one node: %v", name, nodes)
	}
	t.Logf("figure: %s: %s of %d processes as in serial, %.1f s, %.1f MB received by the hosts", policy, name, len(steps), took.Seconds(), float64(c.received()-before)/1e6)
	t.Logf("processes by node: %v", nodes)
}

// received is how many bytes came over the hosts' cables.
func (c *cluster) received() (sum uint64) {
	for _, h := range c.Hosts {
		rx, _, err := h.Bytes()
		if err != nil {
			c.T.Fatal(err)
		}
		sum += rx
	}
	return sum
}
