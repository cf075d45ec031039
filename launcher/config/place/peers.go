package place

import (
	"encoding/json"
	"path/filepath"
)

// MaxPeers bounds the addresses that a launcher remembers.
const MaxPeers = 32

// Peers is where a launcher remembers the addresses of others, so that it finds
// them again when it is restarted: they may not be those that it joined through.
func (d Dir) Peers() string { return filepath.Join(d.Path(), "peers.json") }

// WritePeers remembers addresses, at most [MaxPeers].
func (d Dir) WritePeers(addrs []string) error {
	b, err := json.Marshal(addrs[:min(len(addrs), MaxPeers)])
	if err != nil {
		return err
	}
	return WritePrivate(d.Peers(), append(b, '\n'))
}

// ReadPeers is what was remembered; nothing where that cannot be read.
func (d Dir) ReadPeers() []string {
	b, err := ReadPrivate(d.Peers())
	if err != nil {
		return nil
	}
	var addrs []string
	if json.Unmarshal(b, &addrs) != nil {
		return nil
	}
	return addrs[:min(len(addrs), MaxPeers)]
}
