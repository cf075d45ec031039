package config

import (
	"cmp"
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Config is the configuration of a launcher.
type Config struct {
	Node  place.Node // node.json as written, with the settings
	Log   Log
	Spare int // keepers kept ready

	NoHistory  bool          // ends of jobs are not written to the history on disk
	Metrics    string        // IP:PORT of the metrics; "": none
	DrainBad   int           // failures after which the node is bad; 0: no number
	Bounds     policy.Bounds // of the balancing of tasks
	StoreBytes int64         // the node's part of the shared store; 0: the store's default
}

// Log is the configuration of the log.
type Log struct {
	MaxBytes int64 // of one file; two are kept
	Debug    bool
}

// Load reads and checks a node.json and the settings. A flag, which node.json holds,
// goes before the FILCH_* variables, the variables before the files of [FilesOf], and
// the files before the default.
func Load(path string) (Config, error) { return LoadOver(path, nil) }

// LoadOver is [Load] with other files of settings; nil: the files of the instance.
func LoadOver(path string, files Files) (Config, error) {
	n, err := place.ReadNode(path)
	if err != nil {
		return Config{}, err
	}
	if err := place.CheckInstance(n.Dir.Instance); err != nil {
		return Config{}, filch.Errorf(filch.Invalid, "cannot use %s: %s", path, err.Error())
	}
	if files == nil {
		files = FilesOf(n.Dir.Instance)
	}
	l, err := read(files, &n)
	if err != nil {
		return Config{}, err
	}
	c := Config{Node: n}
	l.apply(&c)
	if c.Log.MaxBytes == 0 {
		c.Log.MaxBytes = defaultLogBytes
	}
	if c.Spare == 0 {
		c.Spare = 1
	}
	return c, c.validate()
}

// defaultLogBytes is the size of a full log file.
const defaultLogBytes = 8 << 20

// Limits on the slots and spare keepers of a node.
const (
	maxSlots = 1 << 16
	maxSpare = 64
)

// validate reports the first invalid value.
func (c *Config) validate() error {
	n := &c.Node
	bad := func(format string, args ...any) error {
		return filch.Errorf(filch.Invalid, "cannot use %s: %s", n.Dir.NodeFile(), fmt.Sprintf(format, args...))
	}
	if err := cmp.Or(place.CheckInstance(n.Dir.Instance), place.CheckNode(n.Dir.Node)); err != nil {
		return bad("%s", err.Error())
	}
	switch {
	case n.UUID == "" || len(n.UUID) > 36:
		return bad("the instance's uuid has %d bytes", len(n.UUID))
	case n.Secret == "":
		return bad("the file of the instance's secret is not named")
	case n.Slots < 0 || n.Slots > maxSlots:
		return bad("%d slots, the most is %d", n.Slots, maxSlots)
	case n.MemBytes < 0:
		return bad("%d bytes of memory", n.MemBytes)
	case n.Keeper == "":
		return bad("the filch binary is not named")
	}
	return nil
}
