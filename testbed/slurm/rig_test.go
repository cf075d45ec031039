//go:build root

package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/slurm"
)

// The tests share a cluster and the binaries; each has a home of its own.

// jobWithin bounds a batch job of a test.
const jobWithin = 90 * time.Second

var world struct {
	dir     string
	cluster *slurm.Cluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if world.cluster != nil {
		world.cluster.Close()
	}
	if world.dir != "" {
		_ = os.RemoveAll(world.dir)
	}
	os.Exit(code)
}

// rig is what a test works with.
type rig struct {
	t    *testing.T
	c    *slurm.Cluster
	dir  string        // of this test, seen by all nodes
	wait time.Duration // for what a test waits for, at most
	env  []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if world.dir == "" {
		world.err = open()
	}
	if world.err != nil {
		t.Fatal(world.err)
	}
	return newRigOn(t, world.cluster)
}

// newRigOn is a rig on a cluster of a test's own.
func newRigOn(t *testing.T, c *slurm.Cluster) *rig {
	t.Helper()
	dir, err := os.MkdirTemp(world.dir, "t")
	if err != nil {
		t.Fatal(err)
	}
	env := append(c.Env(), "FILCH_LOCAL="+c.Local(), "FILCH_HOME="+filepath.Join(dir, "home"),
		"FILCH_FILCHD="+filepath.Join(world.dir, "bin", "filchd"), "HOME="+dir, "PATH="+filepath.Join(world.dir, "bin")+":"+os.Getenv("PATH"))
	return &rig{t: t, c: c, dir: dir, env: env, wait: jobWithin}
}

func open() error {
	var err error
	if world.dir, err = os.MkdirTemp("/tmp", "fs"); err != nil {
		return err
	}
	if err := build(filepath.Join(world.dir, "bin")); err != nil {
		return err
	}
	dir := filepath.Join(world.dir, "s")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(world.dir, 0o755); err != nil {
		return err
	}
	world.cluster, err = slurm.Open(slurm.Options{Nodes: 4, CPUs: 4, Dir: dir})
	return err
}

// build makes the two binaries.
func build(bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"filch", "filchd"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// batch submits a script with sbatch and waits for its end.
func (r *rig) batch(script string, options ...string) (out string, code int) {
	r.t.Helper()
	return r.await(r.submit(script, options...))
}

// submit submits a script and gives the job's number.
func (r *rig) submit(script string, options ...string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, "job.sh")
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+script), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return r.sbatch(append(options, path)...)
}

func (r *rig) sbatch(args ...string) string {
	r.t.Helper()
	id, _ := r.run(append([]string{"sbatch", "--parsable", "-o", filepath.Join(r.dir, "%j.out")}, args...)...)
	return strings.TrimSpace(id)
}

// await waits for the end of a job and gives what it printed and its code.
func (r *rig) await(id string) (out string, code int) {
	r.t.Helper()
	state := ""
	r.poll("the end of job "+id, func() bool {
		text, err := r.c.Text("scontrol", "-o", "show", "job", id)
		if err != nil {
			r.t.Fatal(err)
		}
		state = field(text, "JobState")
		_, _ = fmt.Sscanf(field(text, "ExitCode"), "%d:", &code)
		return state != "PENDING" && state != "RUNNING" && state != "COMPLETING" && state != "CONFIGURING"
	})
	b, err := os.ReadFile(filepath.Join(r.dir, id+".out"))
	if err != nil {
		r.t.Fatalf("job %s, %s: %v", id, state, err)
	}
	return string(b), code
}

// field is a field of what scontrol shows.
func field(text, name string) string {
	for f := range strings.FieldsSeq(text) {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v
		}
	}
	return ""
}

// run runs a command on the login node.
func (r *rig) run(argv ...string) (out string, code int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), jobWithin)
	defer cancel()
	cmd := r.c.Command(ctx, argv...)
	cmd.Env, cmd.Dir = r.env, r.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	b, err := cmd.Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		code = e.ExitCode()
	} else if err != nil {
		r.t.Fatal(err)
	}
	if said.Len() > 0 {
		r.t.Logf("%s: %s", argv[0], said.String())
	}
	return string(b), code
}

func (r *rig) poll(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(r.wait); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("no %s within %v", what, r.wait)
		}
	}
}

// launchers are the processes of ours that work for this test: those whose
// environment names its home.
func (r *rig) launchers() []string {
	var found []string
	mark := []byte("FILCH_HOME=" + filepath.Join(r.dir, "home") + "\x00")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, _ := os.ReadFile(d + "/environ")
		name, _ := os.ReadFile(d + "/comm")
		if bytes.Contains(env, mark) && strings.HasPrefix(string(name), "filch") {
			found = append(found, filepath.Base(d)+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}

// clean waits until nothing of ours is left but the history of jobs, which is the user's alone.
func (r *rig) clean() {
	r.t.Helper()
	r.poll("end of all launchers", func() bool { return len(r.launchers()) == 0 })
	left, _ := filepath.Glob(filepath.Join(r.dir, "home", "*"))
	for _, path := range left {
		info, err := os.Stat(path)
		if filepath.Base(path) != ".history" || err != nil || info.Mode() != os.ModeDir|0o700 {
			r.t.Errorf("left in the home: %s (%v, %v)", path, info, err)
		}
	}
}

// full reports whether the tests take their full sizes.
func full() bool { return os.Getenv("FILCH_PROOF") != "" }
