package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/policy"
)

func sample(t *testing.T) place.Node {
	t.Helper()
	return place.Node{
		Dir: place.Dir{Base: filepath.Join(t.TempDir(), "b"), Instance: "brave-otter", Node: "n1"}, UUID: "u-1", Members: 4,
		Slots: 2, Cores: []int32{4, 5}, MemBytes: 1 << 33, GPUs: []string{"0"}, Keeper: "/bin/filch", Secret: "/s",
		Listen: []string{"127.0.0.1:0"}, Seeds: []string{"127.0.0.1:7"}, Virtual: true,
	}
}

func write(t *testing.T, n place.Node) string {
	t.Helper()
	if err := n.Dir.Make(); err != nil {
		t.Fatal(err)
	}
	if err := place.WriteNode(n); err != nil {
		t.Fatal(err)
	}
	return n.Dir.NodeFile()
}

// noFiles keeps a test from the files of the machine that it runs on.
var noFiles = config.Files{}

func TestLoadReadsWhatWasWritten(t *testing.T) {
	n := sample(t)
	c, err := config.LoadOver(write(t, n), noFiles)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(n, c.Node); d != "" {
		t.Error(d)
	}
	if c.Spare != 1 || c.Log.MaxBytes != 8<<20 || c.Log.Debug || c.StoreBytes != 0 {
		t.Errorf("defaults: got %+v", c)
	}
}

// settingsFiles writes files of the system, the user and the instance; "" leaves
// one out.
func settingsFiles(t *testing.T, texts ...string) config.Files {
	t.Helper()
	var files config.Files
	for i, text := range texts {
		path := filepath.Join(t.TempDir(), []string{"system", "user", "instance"}[i]+".yaml")
		files = append(files, path)
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// A flag goes before the environment, that before the file of the instance, that
// before the user's and the system's, those before the default.
func TestSettingsGoInOrder(t *testing.T) {
	files := settingsFiles(t,
		"# of all users\nslots: 3\nspare: 2\nlog_bytes: 1000\nstore_bytes: 4000\n", "spare: 3\nlog_bytes: 2000\ndebug: false\n", "\n\nlog_bytes: 3000\ndebug: true")
	n := sample(t)
	path := write(t, n)
	t.Setenv("FILCH_SPARE", "5")
	c, err := config.LoadOver(path, files)
	if err != nil || c.Node.Slots != 3 || c.Spare != 5 || c.Log.MaxBytes != 3000 || c.StoreBytes != 4000 || !c.Log.Debug {
		t.Errorf("got %+v, %v", c, err)
	}
	got, err := config.Show(files, path)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Value{
		{Key: "slots", Value: "3", Origin: files[0] + ":2"},
		{Key: "spare", Value: "5", Origin: "environment FILCH_SPARE"},
		{Key: "log_bytes", Value: "3000", Origin: files[2] + ":3"},
		{Key: "store_bytes", Value: "4000", Origin: files[0] + ":5"},
		{Key: "drain_bad", Value: "0", Origin: "default"},
		{Key: "role", Value: "all", Origin: "default"},
		{Key: "steal_wait_ms", Value: "1000", Origin: "default"},
		{Key: "ends_wait_ms", Value: "50", Origin: "default"},
		{Key: "ends_bundle", Value: "256", Origin: "default"},
		{Key: "offer_bundle", Value: "1024", Origin: "default"},
		{Key: "metrics", Value: "", Origin: "default"},
		{Key: "history", Value: "true", Origin: "default"},
		{Key: "debug", Value: "true", Origin: files[2] + ":4"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	t.Setenv("FILCH_SLOTS", "7")
	if c, err := config.LoadOver(path, files); err != nil || c.Node.Slots != 7 {
		t.Errorf("the environment over a file: got %d slots, %v", c.Node.Slots, err)
	}
	n.SlotsGiven = true
	path = write(t, n)
	got, err = config.Show(files, path)
	if err != nil || got[0] != (config.Value{Key: "slots", Value: "2", Origin: "flag --slots"}) {
		t.Errorf("a flag over the environment: got %+v, %v", got, err)
	}
	if c, err := config.LoadOver(path, files); err != nil || c.Node.Slots != 2 {
		t.Errorf("a flag over the environment: got %d slots, %v", c.Node.Slots, err)
	}
}

// The bounds of waits and bundles reach the launcher from each source.
func TestBounds(t *testing.T) {
	files := settingsFiles(t, "", "steal_wait_ms: 50000\nends_bundle: 10\n", "offer_bundle: 100")
	t.Setenv("FILCH_ENDS_WAIT_MS", "7")
	c, err := config.LoadOver(write(t, sample(t)), files)
	want := policy.Bounds{StealWait: 50 * time.Second, EndsWait: 7 * time.Millisecond, Ends: 10, Offer: 100}
	if err != nil || c.Bounds != want {
		t.Errorf("got %+v, %v; want %+v", c.Bounds, err, want)
	}
	c, err = config.LoadOver(write(t, sample(t)), noFiles)
	want = policy.Bounds{EndsWait: 7 * time.Millisecond}.Defaulted()
	if err != nil || c.Bounds != want {
		t.Errorf("without files: got %+v, %v; want %+v", c.Bounds, err, want)
	}
}

// The role of a site goes to each of its nodes, unless --role names another, also "all".
func TestRole(t *testing.T) {
	files := settingsFiles(t, "role: gangs", "", "")
	n := sample(t)
	if c, err := config.LoadOver(write(t, n), files); err != nil || c.Node.Role != filch.ForGangs {
		t.Errorf("of a file: got %s, %v", c.Node.Role, err)
	}
	n.RoleGiven = true
	if c, err := config.LoadOver(write(t, n), files); err != nil || c.Node.Role != filch.ForAll {
		t.Errorf("a flag over a file: got %s, %v", c.Node.Role, err)
	}
	t.Setenv("FILCH_ROLE", "tasks")
	n.RoleGiven = false
	if c, err := config.LoadOver(write(t, n), files); err != nil || c.Node.Role != filch.ForTasks {
		t.Errorf("the environment over a file: got %s, %v", c.Node.Role, err)
	}
}

func TestShowHasDefaults(t *testing.T) {
	got, err := config.Show(settingsFiles(t, "", "", ""), "")
	if err != nil {
		t.Fatal(err)
	}
	cores, err := place.Processors(false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (config.Value{Key: "slots", Value: strconv.Itoa(len(cores)), Origin: "default"}); got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	for _, v := range got {
		if v.Origin != "default" {
			t.Errorf("got %+v", v)
		}
	}
}

func TestFilesOf(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/x")
	if d := cmp.Diff(config.Files{"/etc/filch/config.yaml", "/x/filch/config.yaml", "/x/filch/instances/brave-otter.yaml"}, config.FilesOf("brave-otter")); d != "" {
		t.Error(d)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "/h")
	if d := cmp.Diff(config.Files{"/etc/filch/config.yaml", "/h/.config/filch/config.yaml"}, config.FilesOf("")); d != "" {
		t.Error(d)
	}
}

// What is wrong in a file is said with file and line.
func TestFilesRefused(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"slots: 1\nslot: 4", `user.yaml:2: there is no setting "slot"`, "did you mean slots?"},
		{"colour: red", `user.yaml:1: there is no setting "colour"`, "known are slots, spare, log_bytes, store_bytes, drain_bad, role, steal_wait_ms, ends_wait_ms, ends_bundle, offer_bundle, metrics, history, debug"},
		{"Slots: 4", `user.yaml:1: there is no setting "Slots"`, "did you mean slots?"},
		{"slots: 4\nslots: 5", "user.yaml:2: slots is there twice: also on line 1", ""},
		{"slots: many", `user.yaml:1: slots is "many", not a number from 0 to 65536`, ""},
		{"slots: -1", `user.yaml:1: slots is "-1", not a number`, ""},
		{"slots: 99999", `user.yaml:1: slots is "99999", not a number`, ""},
		{"ends_bundle: 0", `user.yaml:1: ends_bundle is "0", not a number from 1 to 256`, ""},
		{"ends_bundle: 257", `user.yaml:1: ends_bundle is "257", not a number from 1 to 256`, ""},
		{"offer_bundle: 1025", `user.yaml:1: offer_bundle is "1025", not a number from 1 to 1024`, ""},
		{"metrics: 9400", `user.yaml:1: metrics: "9400" is no IP:PORT; 127.0.0.1:0 takes a free port of this machine`, ""},
		{"role: mpi", `user.yaml:1: role: "mpi" is none of tasks, gangs and all`, ""},
		{"steal_wait_ms: 60001", `user.yaml:1: steal_wait_ms is "60001", not a number from 1 to 60000`, ""},
		{"ends_wait_ms: 10001", `user.yaml:1: ends_wait_ms is "10001", not a number from 1 to 10000`, ""},
		{"slots: [4]", "user.yaml:1: slots has no value", ""},
		{"slots:\n", "user.yaml:1: slots has no value", ""},
		{"debug: perhaps", `user.yaml:1: debug is "perhaps", not true or false`, ""},
		{"slots: 1\n debug: true", "user.yaml:2: this is no YAML of this form", ""},
		{"- slots", "user.yaml:1: the file has no settings", ""},
		{"a: &a [x]", "user.yaml:1: this is no YAML of this form: anchors", ""},
		{strings.Repeat("#", 1<<17), "user.yaml: the file has more than 65536 bytes", ""},
	} {
		files := settingsFiles(t, "", c.text)
		_, err := config.Show(files, "")
		var told *filch.Error
		if !errors.As(err, &told) || !strings.Contains(told.Text, c.want) || told.Hint != c.hint {
			t.Errorf("%.40q: got %v, want %s (%s)", c.text, err, c.want, c.hint)
		}
	}
	files := settingsFiles(t, "", "slots: 1")
	if err := os.Chmod(files[1], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Show(files, ""); err == nil || !strings.Contains(err.Error(), "other users may write it") {
		t.Errorf("a file that others may write: got %v", err)
	}
	if _, err := config.Show(config.Files{t.TempDir()}, ""); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a folder: got %v", err)
	}
	t.Setenv("FILCH_SPARE", "65")
	if _, err := config.Show(noFiles, ""); err == nil || !strings.Contains(err.Error(), `cannot use FILCH_SPARE: spare is "65", not a number from 0 to 64`) {
		t.Errorf("the environment: got %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*place.Node)
		want  string
	}{
		"no-uuid":        {func(n *place.Node) { n.UUID = "" }, "uuid"},
		"negative-slots": {func(n *place.Node) { n.Slots = -1 }, "-1 slots"},
		"no-secret":      {func(n *place.Node) { n.Secret = "" }, "secret is not named"},
		"no-keeper":      {func(n *place.Node) { n.Keeper = "" }, "not named"},
	} {
		t.Run(name, func(t *testing.T) {
			n := sample(t)
			c.spoil(&n)
			if _, err := config.LoadOver(write(t, n), noFiles); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	path := write(t, sample(t))
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadOver(path, noFiles); err == nil {
		t.Error("half a file was read")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadOver(path, noFiles); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a file that others may read: got %v", err)
	}
}

func TestCapacityOfThisMachine(t *testing.T) {
	got, err := config.Capacity(place.Node{})
	if err != nil || got.Slots < 1 || len(got.Processors) != int(got.Slots) || got.MemBytes < 1<<20 {
		t.Errorf("got %+v, %v", got, err)
	}
	crowd, err := config.Capacity(place.Node{Cores: []int32{0}, Virtual: true, Members: 1 << 20})
	if err != nil || crowd.CPUs != 0 {
		t.Errorf("a virtual node among more than there are cores: got %+v, %v, want no core of its own", crowd, err)
	}
}

func TestGPUs(t *testing.T) {
	dev := t.TempDir()
	for _, name := range []string{"nvidia0", "nvidia1", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(config.GPUs(dev), " "), "0 1 2 10"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
