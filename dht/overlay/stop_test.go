package overlay_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// childEnv makes the test binary a launcher of its own: NAME SEED.
const childEnv = "FILCH_TEST_OVERLAY_CHILD"

func TestMain(m *testing.M) {
	if arg := os.Getenv(childEnv); arg != "" {
		name, seed, _ := strings.Cut(arg, " ")
		if err := child(filch.NodeName(name), seed); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child joins, says so, and lives until its stdin ends.
func child(name filch.NodeName, seed string) error {
	h, err := overlay.NewHost(overlay.Config{Instance: instance, Secret: secret, Name: name, Incarnation: 1, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	m := mesh(h, 1)
	defer m.Close()
	ctx, cancel := contextFor(networktest.Patience)
	defer cancel()
	if err := m.Join(ctx, seed); err != nil {
		return err
	}
	fmt.Println("joined")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

type process struct {
	cmd  *exec.Cmd
	name filch.NodeName
}

func spawn(t *testing.T, name, seed string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name+" "+seed)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "joined\n" {
		t.Fatalf("child %s: got %q, %v, want that it joined", name, line, err)
	}
	return &process{cmd, filch.NodeName(name)}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// A process that is stopped for less than 3 s loses nothing; stopped for
// longer it is suspected within 2 s of its last word, dead after 5, and comes
// back with a new incarnation when it goes on. One that is killed is dead
// after 5 s as well.
func TestRealMeshAndStoppedProcesses(t *testing.T) {
	all := realCluster(t, 3)
	stopped := spawn(t, "stopped", all[1].addr)
	killed := spawn(t, "killed", all[2].addr)
	settle(t, all, 5)

	stopped.signal(t, syscall.SIGSTOP)
	<-time.After(2700 * time.Millisecond) // the pause itself
	stopped.signal(t, syscall.SIGCONT)
	settle(t, all, 5)
	for _, n := range all {
		if d := n.count(members.EventDead); d != 0 {
			t.Fatalf("%s tells of %d deaths after a pause under 3 s", n.Name(), d)
		}
	}
	for _, n := range all {
		n.forget()
	}

	at := time.Now()
	stopped.signal(t, syscall.SIGSTOP)
	killed.signal(t, syscall.SIGKILL)
	settle(t, all, 3)
	for _, n := range all {
		for _, p := range []*process{stopped, killed} {
			suspect, dead := n.when(members.EventSuspect, p.name).Sub(at), n.when(members.EventDead, p.name).Sub(at)
			// Not too early matters; how late is also the machine's.
			// A word of the first pause may come in now.
			if suspect > 4*time.Second || dead < 4*time.Second || dead > 9*time.Second {
				t.Errorf("%s suspected %s after %v and knew of its death after %v, want about 2 s and 5 s", n.Name(), p.name, suspect, dead)
			}
		}
	}

	stopped.signal(t, syscall.SIGCONT)
	settle(t, all, 4)
	for _, n := range all {
		for _, m := range n.Members() {
			if m.Name == stopped.name && m.Incarnation <= 1 {
				t.Errorf("%s has %s back with incarnation %d, want a new one", n.Name(), m.Name, m.Incarnation)
			}
		}
	}
}
