package config

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/viper"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/policy"
)

// setting is a value that people choose for a launcher. The environment variable
// of a setting is FILCH_ and the key in capitals.
type setting struct {
	key    string
	truth  bool               // true or false
	text   func(string) error // refuses a wrong text; nil: a number, unless truth is set
	least  int64
	most   int64
	preset int64  // the default; of truth, 1 is true
	usual  string // the default of a text
}

// settings are all keys of a file of settings.
var settings = []setting{
	{key: "slots", most: maxSlots}, // default: a core each
	{key: "spare", most: maxSpare, preset: 1},
	{key: "log_bytes", most: maxBytes, preset: defaultLogBytes},
	{key: "store_bytes", most: maxBytes},
	{key: "drain_bad", most: maxBad},
	{key: "role", text: checkRole, usual: filch.ForAll.String()},
	{key: "steal_wait_ms", least: 1, most: ms(policy.StealWaitMost), preset: ms(policy.PollMax)},
	{key: "ends_wait_ms", least: 1, most: ms(policy.EndsWaitMost), preset: ms(policy.EndsWaitMax)},
	{key: "ends_bundle", least: 1, most: policy.EndsMax, preset: policy.EndsMax},
	{key: "offer_bundle", least: 1, most: policy.OfferMax, preset: policy.OfferMax},
	{key: "metrics", text: checkAddr}, // default: no metrics
	{key: "history", truth: true, preset: 1},
	{key: "debug", truth: true},
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// maxBad bounds the failures after which a node is bad.
const maxBad = 1000

// maxBytes bounds a size.
const maxBytes = int64(1) << 50

func (s *setting) env() string { return "FILCH_" + strings.ToUpper(s.key) }

func findSetting(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}

func settingKeys() []string {
	keys := make([]string, len(settings))
	for i := range settings {
		keys[i] = settings[i].key
	}
	return keys
}

// checkAddr refuses what is no IP:PORT.
func checkAddr(value string) error {
	if value == "" {
		return nil
	}
	if _, err := netip.ParseAddrPort(value); err != nil {
		return fmt.Errorf("%s is no IP:PORT; 127.0.0.1:0 takes a free port of this machine", strconv.Quote(value))
	}
	return nil
}

// checkRole refuses what is no role.
func checkRole(value string) error {
	if _, err := filch.ReadRole(value); err != nil {
		return fmt.Errorf("%s is none of tasks, gangs and all", strconv.Quote(value))
	}
	return nil
}

// check refuses an invalid value.
func (s *setting) check(value string) error {
	if s.text != nil {
		if err := s.text(value); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
		return nil
	}
	if s.truth {
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%s is %s, not true or false", s.key, strconv.Quote(value))
		}
		return nil
	}
	if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < s.least || n > s.most {
		return fmt.Errorf("%s is %s, not a number from %d to %d", s.key, strconv.Quote(value), s.least, s.most)
	}
	return nil
}

// Value is a setting with the source of the value.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // "flag --slots", "environment FILCH_SLOTS", "/etc/filch/config.yaml:3", "default"
}

// Files are the files of settings. Of two files with the same key the later counts.
type Files []string

// systemFile is written by an operator, for all users of a machine.
const systemFile = "/etc/filch/config.yaml"

// FilesOf returns the files for an instance: of the system, of the user, and of the
// instance. The file of an instance is in the user's folder, since filch down removes
// the instance's folder. Files need not exist. Without an instance there are two.
func FilesOf(instance string) Files {
	files := Files{systemFile}
	dir, err := os.UserConfigDir() // fails without a home: then there is no file of the user
	if err != nil {
		return files
	}
	files = append(files, filepath.Join(dir, "filch", "config.yaml"))
	if instance != "" {
		files = append(files, filepath.Join(dir, "filch", "instances", instance+".yaml"))
	}
	return files
}

// layers are the settings of all sources. viper says which value counts: a flag
// goes before the environment, the environment before files, files before the default.
type layers struct {
	v     *viper.Viper
	files []*file
	flags map[string]bool
}

// read reads the files and the environment. The slots of the
// node are a flag if SlotsGiven, else the default.
func read(files Files, n *place.Node) (*layers, error) {
	l := &layers{v: viper.New(), flags: map[string]bool{}}
	for i := range settings {
		s := &settings[i]
		l.v.SetDefault(s.key, strconv.FormatInt(s.preset, 10))
		switch {
		case s.truth:
			l.v.SetDefault(s.key, strconv.FormatBool(s.preset == 1))
		case s.text != nil:
			l.v.SetDefault(s.key, s.usual)
		}
		if err := l.v.BindEnv(s.key, s.env()); err != nil {
			return nil, err
		}
		if value := os.Getenv(s.env()); value != "" {
			if err := s.check(value); err != nil {
				return nil, filch.Errorf(filch.Invalid, "cannot use %s: %s", s.env(), err.Error())
			}
		}
	}
	for _, path := range files {
		f, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		if err := l.v.MergeConfigMap(maps.Clone(f.values)); err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot use %s: %s", path, err.Error())
		}
		l.files = append(l.files, f)
	}
	l.v.SetDefault("slots", strconv.Itoa(int(n.Slots)))
	if n.SlotsGiven {
		l.v.Set("slots", strconv.Itoa(int(n.Slots)))
		l.flags["slots"] = true
	}
	if n.DrainBad != nil {
		l.v.Set("drain_bad", strconv.Itoa(int(*n.DrainBad)))
		l.flags["drain_bad"] = true
	}
	if n.RoleGiven {
		l.v.Set("role", n.Role.String())
		l.flags["role"] = true
	}
	if n.Metrics != "" {
		l.v.Set("metrics", n.Metrics)
		l.flags["metrics"] = true
	}
	return l, nil
}

// origin returns the source of the value of a key.
func (l *layers) origin(s *setting) string {
	if l.flags[s.key] {
		return "flag --" + strings.ReplaceAll(s.key, "_", "-")
	}
	if os.Getenv(s.env()) != "" {
		return "environment " + s.env()
	}
	for _, f := range slices.Backward(l.files) {
		if line, found := f.lines[s.key]; found {
			return f.path + ":" + strconv.Itoa(line)
		}
	}
	return "default"
}

// apply writes the settings to c. A value of 0 stands for the default.
func (l *layers) apply(c *Config) {
	c.Node.Slots = int32(l.number("slots"))
	c.Log = Log{MaxBytes: l.number("log_bytes"), Debug: l.v.GetBool("debug")}
	c.Node.Role, _ = filch.ReadRole(l.v.GetString("role")) // which read has checked
	c.Spare, c.StoreBytes = int(l.number("spare")), l.number("store_bytes")
	c.NoHistory = !l.v.GetBool("history")
	c.DrainBad, c.Metrics = int(l.number("drain_bad")), l.v.GetString("metrics")
	c.Bounds = policy.Bounds{
		StealWait: time.Duration(l.number("steal_wait_ms")) * time.Millisecond,
		EndsWait:  time.Duration(l.number("ends_wait_ms")) * time.Millisecond,
		Ends:      int(l.number("ends_bundle")), Offer: int(l.number("offer_bundle")),
	}
}

// number returns a value that read has checked. viper would take 010 for 8.
func (l *layers) number(key string) int64 {
	n, _ := strconv.ParseInt(l.v.GetString(key), 10, 64)
	return n
}

// list returns the settings.
func (l *layers) list() []Value {
	values := make([]Value, len(settings))
	for i := range settings {
		s := &settings[i]
		values[i] = Value{Key: s.key, Value: l.v.GetString(s.key), Origin: l.origin(s)}
	}
	return values
}

// Show returns the settings of a launcher that is started now with the environment
// of this process. The node is the path of a node.json, or "" where none exists.
func Show(files Files, node string) ([]Value, error) {
	var n place.Node
	if node != "" {
		var err error
		if n, err = place.ReadNode(node); err != nil {
			return nil, err
		}
	} else {
		cores, err := place.Processors(n.Threads)
		if err != nil {
			return nil, err
		}
		n.Slots = int32(len(cores))
	}
	l, err := read(files, &n)
	if err != nil {
		return nil, err
	}
	return l.list(), nil
}
