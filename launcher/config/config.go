package config

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// Config is what a launcher is made of.
type Config struct {
	Node  place.Node // as it was written, with the overrides
	Log   Log
	Spare int // keepers kept ready
}

// Log is the log's part.
type Log struct {
	MaxBytes int64 // of one file; two are kept
	Debug    bool
}

// overrides are the variables that stand over node.json.
var overrides = map[string]string{
	"slots":             "FILCH_SLOTS",
	"tuning.debug":      "FILCH_DEBUG",
	"tuning.logbytes":   "FILCH_LOG_BYTES",
	"tuning.spare":      "FILCH_SPARE",
	"tuning.storebytes": "FILCH_STORE_BYTES",
}

// Load reads and checks a node.json.
func Load(path string) (Config, error) {
	b, err := place.ReadPrivate(path)
	if err != nil {
		return Config{}, err
	}
	v := viper.New()
	v.SetConfigType("json")
	for key, name := range overrides {
		if err := v.BindEnv(key, name); err != nil {
			return Config{}, err
		}
	}
	if err := v.ReadConfig(bytes.NewReader(b)); err != nil {
		return Config{}, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, err.Error())
	}
	var c Config
	if err := v.Unmarshal(&c.Node, func(d *mapstructure.DecoderConfig) { d.TagName = "json" }); err != nil {
		return Config{}, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, err.Error())
	}
	c.Log = Log{MaxBytes: c.Node.Tuning.LogBytes, Debug: c.Node.Tuning.Debug}
	if c.Log.MaxBytes == 0 {
		c.Log.MaxBytes = defaultLogBytes
	}
	if c.Spare = c.Node.Tuning.Spare; c.Spare == 0 {
		c.Spare = 1
	}
	return c, c.Validate()
}

// defaultLogBytes is how long a log grows before it is set aside.
const defaultLogBytes = 8 << 20

// maxSlots bounds what a node may claim to have.
const maxSlots = 1 << 16

// Validate reports the first thing that makes no sense.
func (c *Config) Validate() error {
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
	case n.Tuning.StoreBytes < 0:
		return bad("%d bytes for the store", n.Tuning.StoreBytes)
	case c.Spare < 0 || c.Spare > 64:
		return bad("%d keepers to be kept ready, the most is 64", c.Spare)
	}
	return nil
}
