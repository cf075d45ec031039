package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/testbed/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// python is Debian's, which has CPython's tests.
const python = "/usr/bin/python3"

// site is an empty venv with the wheel, a home and an instance.
type site struct {
	t   *testing.T
	dir string // short, for there are sockets in it
	env []string
}

// build makes the wheel and returns its name.
func build(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command(python, "../../scripts/python/build", dir).Output()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// newSite brings an instance up. Options are of venv.
func newSite(t *testing.T, nodes, slots int, options ...string) *site {
	t.Helper()
	bin, err := rig.Product()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, dir: dir}
	for _, f := range []string{"l", "h", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, f), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bin, filepath.Join(dir, "bin", "filch")); err != nil {
		t.Fatal(err)
	}
	// Without pip, which would need another package of Debian: a pure wheel is unpacked.
	s.must(exec.Command(python, append([]string{"-m", "venv", "--without-pip", filepath.Join(dir, "venv")}, options...)...))
	packages, err := filepath.Glob(filepath.Join(dir, "venv/lib/python3*/site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("the venv has the folders of packages %v, %v", packages, err)
	}
	s.must(exec.Command(python, "-m", "zipfile", "-e", build(t, dir), packages[0]))
	s.env = append(os.Environ(), "HOME="+filepath.Join(dir, "h"), "FILCH_HOME="+filepath.Join(dir, "h"), "FILCH_LOCAL="+filepath.Join(dir, "l"),
		"XDG_CONFIG_HOME=", "FILCH_INSTANCE=python", "PYTHONDONTWRITEBYTECODE=1", "PATH="+filepath.Join(dir, "venv/bin")+":"+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	s.must(s.command("filch", "up", "--instance", "python", "--nodes", strconv.Itoa(nodes), "--slots", strconv.Itoa(slots)))
	t.Cleanup(func() { s.must(s.command("filch", "down", "--instance", "python")) })
	return s
}

// command is a command of the user of the site.
func (s *site) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/env", append([]string{name}, args...)...)
	cmd.Env, cmd.Dir = s.env, s.dir
	return cmd
}

func (s *site) must(cmd *exec.Cmd) string {
	s.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// run runs a file of scripts/python/tests.
func (s *site) run(file string) {
	s.t.Helper()
	tests, err := filepath.Abs("../../scripts/python/tests")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.command("python3", filepath.Join(tests, file))
	cmd.Env = append(cmd.Env, "PYTHONPATH="+tests)
	s.must(cmd)
}

// The bytes of the wheel depend on the sources alone, and the package is complete.
func TestWheel(t *testing.T) {
	var wheels [2][]byte
	for i := range wheels {
		var err error
		if wheels[i], err = os.ReadFile(build(t, t.TempDir())); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(wheels[0], wheels[1]) {
		t.Error("two builds differ")
	}
	for _, name := range []string{"filch/__init__.py", "filch/_worker.py", "filch/py.typed", "dist-info/RECORD"} {
		if !bytes.Contains(wheels[0], []byte(name)) {
			t.Errorf("the wheel lacks %s", name)
		}
	}
}

func TestExecutor(t *testing.T) {
	s := newSite(t, 2, 2)
	s.run("test_executor.py")
	s.run("test_workflow.py")
}

// mpi4py, joblib and cloudpickle are packages of Debian.
func TestWithPackages(t *testing.T) {
	s := newSite(t, 2, 2, "--system-site-packages")
	for _, file := range []string{"test_mpi.py", "test_joblib.py", "test_executor.py"} {
		s.run(file)
	}
}

func TestDeadLaunchers(t *testing.T) { newSite(t, 3, 1).run("test_launcher.py") }

func TestCPython(t *testing.T) {
	if _, err := os.Stat("/usr/lib/python3.11/test/test_concurrent_futures.py"); err != nil {
		t.Fatalf("CPython's tests are missing: scripts/install-deps test installs libpython3.11-testsuite: %v", err)
	}
	newSite(t, 1, 5).run("cpython.py")
}

// block is a part of a document between fences.
var block = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// The files of docs/python.md are what its commands need, and the commands print what the document
// shows.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, 2, 2)
	ran := 0
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		if kind, body := b[1], b[2]; kind != "" {
			first, _, _ := strings.Cut(body, "\n")
			name := strings.Trim(first, "#/* ")
			if err := os.WriteFile(filepath.Join(s.dir, name), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, part := range strings.Split("\n"+b[2], "\n$ ")[1:] {
			command, want, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
			if !strings.HasPrefix(command, "python3 ") && !strings.HasPrefix(command, "mpicc ") {
				continue // what newSite has done otherwise
			}
			if got := strings.TrimSuffix(s.must(s.command("sh", "-c", command)), "\n"); got != want {
				t.Errorf("$ %s\ngot:\n%s\nwant:\n%s", command, got, want)
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("docs/python.md has %d commands to run", ran)
	}
}
