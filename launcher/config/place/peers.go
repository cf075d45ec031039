package place

import (
	"encoding/json"
	"path/filepath"
)

// MaxPeers bounds the addresses that a launcher saves.
const MaxPeers = 32

// Peers is the file in which a launcher saves the addresses of other launchers, for its
// next start: the launchers that this launcher joined through may be gone by then.
func (d Dir) Peers() string { return filepath.Join(d.Path(), "peers.json") }

// WritePeers saves addresses, at most [MaxPeers].
func (d Dir) WritePeers(addrs []string) error {
	b, err := json.Marshal(addrs[:min(len(addrs), MaxPeers)])
	if err != nil {
		return err
	}
	return WritePrivate(d.Peers(), append(b, '\n'))
}

// ReadPeers returns the saved addresses; none if the file cannot be read.
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
