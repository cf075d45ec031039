package overlay

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/filch-hpc/filch"
)

// MinSecret is the minimum number of bytes of a secret.
const MinSecret = 16

// deriveKey makes a node's key from the instance's secret and the node's name. So
// any holder of the secret knows the identity of every legal node, and a restart
// keeps the identity.
func deriveKey(secret []byte, name filch.NodeName) (crypto.PrivKey, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the instance's secret has %d bytes, fewer than %d", len(secret), MinSecret)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "filch node key "+string(name), ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed))
}

// derivePeer is the peer id of deriveKey.
func derivePeer(secret []byte, name filch.NodeName) (peer.ID, error) {
	k, err := deriveKey(secret, name)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(k)
}

// MaxName is the maximum number of bytes of a node's name.
const MaxName = 63

// CheckName returns an error describing the fault of a node's name, or nil.
func CheckName(n filch.NodeName) error {
	if len(n) == 0 || len(n) > MaxName {
		return fmt.Errorf("a node's name has 1 to %d bytes, this one %d", MaxName, len(n))
	}
	for i := range len(n) {
		c := n[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("a node's name is made of letters, digits, '-', '_' and '.', this one holds %q", c)
		}
	}
	return nil
}
