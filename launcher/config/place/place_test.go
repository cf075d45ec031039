package place

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// docs/trouble.md, which tells where the log of a launcher is, names the candidates in their
// order.
func TestTroubleDocNamesTheCandidates(t *testing.T) {
	b, err := os.ReadFile("../../../docs/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range candidates {
		names = append(names, "`"+c+"`")
	}
	want := "`BASE` is `filch-UID` in the first usable folder of " + strings.Join(names, ", ") + " and `" + fallback + "`."
	if page := strings.Join(strings.Fields(string(b)), " "); !strings.Contains(page, want) {
		t.Errorf("docs/trouble.md does not say: %s", want)
	}
}

func TestPickParent(t *testing.T) {
	dir := t.TempDir()
	other := t.TempDir()
	for name, c := range map[string]struct {
		env    map[string]string
		remote string
		want   string
		err    string
	}{
		"fallback":                      {want: "/tmp"},
		"first-of-the-list":             {env: map[string]string{"FILCH_LOCAL": dir, "TMPDIR": other}, want: dir},
		"shared-one-is-passed-over":     {env: map[string]string{"SLURM_TMPDIR": dir, "TMPDIR": other}, remote: dir, want: other},
		"shared-one-by-name-is-refused": {env: map[string]string{"FILCH_LOCAL": dir}, remote: dir, err: "NFS"},
		"relative-one-is-refused":       {env: map[string]string{"FILCH_LOCAL": "here"}, err: "not an absolute path"},
		"too-long-one-is-refused":       {env: map[string]string{"FILCH_LOCAL": "/" + strings.Repeat("x", 60)}, err: "longer than 103"},
		"missing-one-is-passed-over":    {env: map[string]string{"TMPDIR": filepath.Join(dir, "no")}, want: "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			if len(dir) > maxBase-18 || len(other) > maxBase-18 {
				t.Logf("the test's directories are long: %s", dir)
			}
			got, err := pickParent(func(k string) string { return c.env[k] }, func(d string) string {
				if d == c.remote {
					return "NFS"
				}
				return ""
			})
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v, want %q", err, c.err)
			case c.err == "" && (err != nil || got != c.want):
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestPrivateRefuses(t *testing.T) {
	root := t.TempDir()
	open := filepath.Join(root, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if err := private(open); err == nil || !strings.Contains(err.Error(), "mode is 0755") {
		t.Errorf("open directory: got %v", err)
	}
	if err := private(link); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("link: got %v", err)
	}
	if err := private(filepath.Join(root, "new")); err != nil {
		t.Error(err)
	}
}

func TestSocketPathsAreShort(t *testing.T) {
	long := strings.Repeat("n", 63)
	for _, d := range []Dir{
		{Base: "/tmp/filch-0", Instance: "brave-otter", Node: "n1"},
		{Base: "/" + strings.Repeat("b", maxBase-1), Instance: long, Node: long},
	} {
		if sock := d.Socket(); len(sock) > maxSocket {
			t.Errorf("%d bytes, want at most %d: %s", len(sock), maxSocket, sock)
		}
	}
}

func TestSecretIsGuarded(t *testing.T) {
	h := Home(filepath.Join(t.TempDir(), "home"))
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	made := bytes.Repeat([]byte{7, 200}, SecretBytes/2)
	if err := WriteSecret(h.Secret(), made); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSecret(h.Secret())
	if err != nil || !slices.Equal(got, made) {
		t.Fatalf("got %x, %v", got, err)
	}
	link := filepath.Join(string(h), "link")
	if err := os.Symlink(h.Secret(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("link: got %v", err)
	}
	if err := os.Chmod(h.Secret(), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(h.Secret()); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Errorf("mode 0640: got %v", err)
	}
	if _, err := ReadSecret(filepath.Join(string(h), "none")); kindOf(err) != filch.NotFound {
		t.Errorf("missing: got %v", err)
	}
	if _, err := ParseSecret([]byte("beef"), "stdin"); err == nil {
		t.Error("a short secret was taken")
	}
}

func kindOf(err error) filch.Kind {
	var e *filch.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return filch.Internal
}

func TestContactComesBack(t *testing.T) {
	h := Home(filepath.Join(t.TempDir(), "home"))
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	want := Contact{Instance: "brave-otter", UUID: "u", Wire: 1, Addrs: []string{"10.0.0.1:7000"}}
	if err := h.WriteContact(want); err != nil {
		t.Fatal(err)
	}
	got, err := h.ReadContact()
	if err != nil || got.UUID != "u" || len(got.Addrs) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"n10", "n2", "n1", "m", "n02", "n1a", "n"}
	slices.SortFunc(names, NaturalOrder)
	if got, want := strings.Join(names, " "), "m n n1 n1a n02 n2 n10"; got != want && got != "m n n1 n1a n2 n02 n10" {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestValidName(t *testing.T) {
	for s, want := range map[string]bool{"n1": true, "a.b-c_D": true, "": false, "..": false, "-x": false, "a/b": false, "a b": false, strings.Repeat("x", 64): false} {
		if got := ValidName(s); got != want {
			t.Errorf("%q: got %v", s, got)
		}
	}
}

func TestReservedNames(t *testing.T) {
	for _, c := range []struct {
		check func(string) error
		name  string
		err   string
	}{
		{CheckInstance, "bold-otter", ""},
		{CheckInstance, "binary", ""},
		{CheckInstance, "hosts", ""},
		{CheckInstance, "bin", "an instance cannot be called bin: filch keeps its programs"},
		{CheckInstance, "../x", `an instance cannot be called "../x"`},
		{CheckInstance, "", `an instance cannot be called ""`},
		{CheckNode, "n1", ""},
		{CheckNode, "bin", ""},
		{CheckNode, "hosts", "a node cannot be called hosts"},
		{CheckNode, "a\nb", `a node cannot be called "a\nb"`},
	} {
		err := c.check(c.name)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: got %v, want %q", c.name, err, c.err)
		}
	}
	for _, d := range []Dir{{Instance: "bin", Node: "n1"}, {Instance: "i", Node: "hosts"}} {
		d.Base = t.TempDir()
		if err := os.Chmod(d.Base, 0o700); err != nil {
			t.Fatal(err)
		}
		if d.Make() == nil {
			t.Errorf("%s was made", d.Path())
		}
	}
}

// up makes a state directory with a socket that answers.
func up(t *testing.T, base, instance, node string) net.Listener {
	t.Helper()
	d := Dir{Base: base, Instance: instance, Node: node}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestConnectChooses(t *testing.T) {
	base := filepath.Join(shortDir(t), "b")
	none := func(string) string { return "" }
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	if _, _, err := connectIn(base, Wanted{}, none); kindOf(err) != filch.Unavailable {
		t.Errorf("nothing runs: got %v", err)
	}
	up(t, base, "brave-otter", "n1")
	up(t, base, "brave-otter", "n2")
	if err := (Dir{Base: base, Instance: "dead-mole", Node: "n1"}).Make(); err != nil {
		t.Fatal(err)
	}
	check := func(name string, w Wanted, env func(string) string, want string) {
		t.Helper()
		c, d, err := connectIn(base, w, env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		c.Close()
		if got := d.Instance + "/" + d.Node; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	check("the only one", Wanted{}, none, "brave-otter/n1")
	check("a node by name", Wanted{Node: "n2"}, none, "brave-otter/n2")
	var e *filch.Error
	if _, _, err := connectIn(base, Wanted{Node: "n9"}, none); !errors.As(err, &e) || e.Kind != filch.NotFound || !strings.Contains(e.Hint, "n2 of brave-otter") {
		t.Errorf("a node that is not here: got %v, want an error that names the launchers here", err)
	}
	check("from a rank whose launcher is gone", Wanted{}, env("FILCH_INSTANCE", "brave-otter", "FILCH_NODE", "n9"), "brave-otter/n1")
	check("from a rank", Wanted{}, env("FILCH_INSTANCE", "brave-otter", "FILCH_NODE", "n2"), "brave-otter/n2")
	up(t, base, "calm-fox", "n1")
	up(t, base, "slurm-77", "n1")
	_, _, err := connectIn(base, Wanted{}, none)
	if err == nil || !strings.Contains(err.Error(), "3 instances run here: brave-otter, calm-fox, slurm-77") {
		t.Errorf("three: got %v", err)
	}
	check("by name", Wanted{Instance: "calm-fox"}, none, "calm-fox/n1")
	check("the allocation's own", Wanted{}, env("SLURM_JOB_ID", "77"), "slurm-77/n1")
	if _, _, err := connectIn(base, Wanted{Instance: "dead-mole"}, none); kindOf(err) != filch.Unavailable {
		t.Errorf("dead: got %v", err)
	}
	if _, _, err := connectIn(base, Wanted{Instance: "no-such"}, none); kindOf(err) != filch.NotFound {
		t.Errorf("unknown: got %v", err)
	}
}

// shortDir is a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("/tmp", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return d
}

func TestRemoveLeavesNothing(t *testing.T) {
	base := filepath.Join(shortDir(t), "b")
	d := Dir{Base: base, Instance: "brave-otter", Node: "n1"}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := subdirs(base); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
