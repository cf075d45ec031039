//go:build compose

package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	project = "filch-testbed"
	image   = "filch-node:testbed"
	size    = 4

	buildWithin   = 10 * time.Minute // the image, from nothing
	composeWithin = 2 * time.Minute
	execWithin    = 60 * time.Second // a command in a container that ends by itself
)

// cluster is what `docker-compose up --scale node=4` made.
type cluster struct {
	t     *testing.T
	nodes []*container
}

// container is one node. Its host name is the launcher's name.
type container struct {
	t    *testing.T
	id   string
	name string // docker's
	host string
	ip   string
}

// command runs argv and returns its output; it fails the test on an error.
func command(t *testing.T, within time.Duration, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), e, out.String(), err.String())
	}
	return out.String()
}

// compose is either form of the tool, with our file and project.
func compose(t *testing.T, args ...string) {
	t.Helper()
	tool := []string{"docker-compose"}
	if exec.Command("docker", "compose", "version").Run() == nil {
		tool = []string{"docker", "compose"}
	} else if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Fatal("neither `docker compose` nor docker-compose is here; scripts/install-deps compose installs it")
	}
	command(t, composeWithin, append(append(tool, "-p", project, "-f", "docker-compose.yml"), args...)...)
}

// up builds the image around the given filch and starts the containers.
func up(t *testing.T) *cluster {
	t.Helper()
	filch := os.Getenv("FILCH_BIN")
	if filch == "" {
		t.Fatal("FILCH_BIN does not name the filch to test; `make testbed` sets it")
	}
	fmt.Print(command(t, buildWithin, "./base"))
	dir := t.TempDir()
	for _, f := range []string{"image/Dockerfile", "image/entry", filch} {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), raw, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, buildWithin, "docker", "build", "-q", "-t", image, dir)
	compose(t, "down", "-v", "-t", "1")
	c := &cluster{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			c.report()
		}
		compose(t, "down", "-v", "-t", "1")
	})
	compose(t, "up", "-d", "--scale", "node="+strconv.Itoa(size))
	c.find()
	return c
}

// find lists the containers in the order of their numbers.
func (c *cluster) find() {
	c.t.Helper()
	names := strings.Fields(command(c.t, execWithin, "docker", "ps", "-a", "--filter", "label=com.docker.compose.project="+project, "--format", "{{.Names}}"))
	c.nodes = make([]*container, size)
	for _, name := range names {
		n := &container{t: c.t, name: name}
		f := strings.Fields(command(c.t, execWithin, "docker", "inspect", "-f",
			`{{.Id}} {{.Config.Hostname}} {{index .Config.Labels "com.docker.compose.container-number"}} {{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}`, name))
		if len(f) != 4 {
			c.t.Fatalf("docker inspect %s says %q, want id, host name, number and address", name, f)
		}
		i, err := strconv.Atoi(f[2])
		if err != nil || i < 1 || i > size {
			c.t.Fatalf("container %s has number %q, want 1 to %d", name, f[2], size)
		}
		n.id, n.host, n.ip = f[0], f[1], f[3]
		c.nodes[i-1] = n
	}
	for i, n := range c.nodes {
		if n == nil {
			c.t.Fatalf("container %d of %d is missing among %v", i+1, size, names)
		}
	}
}

// report prints what each launcher said last.
func (c *cluster) report() {
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		out, _ := exec.Command("docker", "logs", "--tail", "40", n.id).CombinedOutput()
		c.t.Logf("== %s (%s)\n%s", n.name, n.host, out)
	}
}

// docker does something to the container: kill, pause, start.
func (n *container) docker(verb string, args ...string) {
	n.t.Helper()
	command(n.t, execWithin, append(append([]string{"docker", verb}, args...), n.id)...)
}

// network cuts the container off, or reconnects it.
func (n *container) network(verb string) {
	n.t.Helper()
	args := []string{"docker", "network", verb}
	if verb == "connect" {
		args = append(args, "--alias", "node")
	}
	command(n.t, execWithin, append(args, project+"_private", n.id)...)
}

// running is a command that goes on in a container.
type running struct {
	t        *testing.T
	argv     []string
	done     chan struct{}
	code     int
	out, err bytes.Buffer
}

// start begins argv in the container.
func (n *container) start(argv ...string) *running {
	n.t.Helper()
	r := &running{t: n.t, argv: argv, done: make(chan struct{})}
	cmd := exec.Command("docker", append([]string{"exec", n.id}, argv...)...)
	cmd.Stdout, cmd.Stderr = &r.out, &r.err
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		err := cmd.Wait()
		r.code = 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			r.code = exit.ExitCode()
		} else if err != nil {
			r.code = -1
		}
	}()
	return r
}

// ends waits for the command and checks its code.
func (r *running) ends(want int, within time.Duration) string {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(within):
		r.t.Fatalf("%s: still running after %v, want code %d", strings.Join(r.argv, " "), within, want)
	}
	if r.code != want {
		r.t.Fatalf("%s: got code %d, want %d\n%s%s", strings.Join(r.argv, " "), r.code, want, r.out.String(), r.err.String())
	}
	return r.out.String()
}

// run is start and ends for a command that takes no time of its own.
func (n *container) run(want int, argv ...string) string {
	n.t.Helper()
	return n.start(argv...).ends(want, execWithin)
}

// count is the number of processes of the container with exactly that command.
func (n *container) count(cmdline string) int {
	n.t.Helper()
	out, err := exec.Command("docker", "exec", n.id, "pgrep", "-fxc", cmdline).Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		n.t.Fatalf("pgrep on %s: %v", n.name, err)
	}
	k, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		n.t.Fatalf("pgrep on %s says %q", n.name, out)
	}
	return k
}

// received is the number of bytes that came in over the private network.
func (n *container) received() int64 {
	n.t.Helper()
	text := strings.TrimSpace(n.run(0, "cat", "/sys/class/net/eth0/statistics/rx_bytes"))
	k, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n.t.Fatalf("counter of %s: %q", n.name, text)
	}
	return k
}

// member is what `filch nodes --json` says of a node.
type member struct {
	Name  string   `json:"name"`
	State string   `json:"state"`
	Addrs []string `json:"addrs"`
	Slots int      `json:"slots"`
	Free  int      `json:"free"`
}

// members asks the launcher of n.
func (n *container) members() ([]member, error) {
	out, err := exec.Command("docker", "exec", n.id, "filch", "nodes", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("filch nodes on %s: %w", n.name, err)
	}
	var list []member
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("filch nodes --json on %s: %w: %s", n.name, err, out)
	}
	return list, nil
}

// eventually polls until ok or the deadline; ok says what is wrong, "" if fine.
func eventually(t *testing.T, within time.Duration, ok func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		wrong := ok()
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", within, wrong)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// whole waits until the given node sees all as up and every slot free.
func (c *cluster) whole(from *container, within time.Duration) {
	c.t.Helper()
	eventually(c.t, within, func() string {
		list, err := from.members()
		if err != nil {
			return err.Error()
		}
		up := 0
		for _, m := range list {
			if m.State == "up" && m.Free == m.Slots && m.Slots > 0 {
				up++
			}
		}
		if up != size {
			return fmt.Sprintf("%d nodes up with all slots free, want %d: %+v", up, size, list)
		}
		return ""
	})
}

// gone waits until no process of that command is left on any of the nodes.
func gone(t *testing.T, cmdline string, within time.Duration, nodes ...*container) {
	t.Helper()
	eventually(t, within, func() string {
		for _, n := range nodes {
			if k := n.count(cmdline); k != 0 {
				return fmt.Sprintf("%d of %q live on %s", k, cmdline, n.name)
			}
		}
		return ""
	})
}

// there waits until each node runs one process of that command.
func there(t *testing.T, cmdline string, nodes ...*container) {
	t.Helper()
	eventually(t, 30*time.Second, func() string {
		for _, n := range nodes {
			if k := n.count(cmdline); k != 1 {
				return fmt.Sprintf("%d of %q live on %s, want 1", k, cmdline, n.name)
			}
		}
		return ""
	})
}

// hosts is the -w list of the nodes.
func hosts(nodes ...*container) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.host
	}
	return strings.Join(names, ",")
}
