package place

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Home is ~/.filch/INSTANCE, which may be on a shared file system.
type Home string

// HomeOf returns the home of an instance. $FILCH_HOME stands for ~/.filch.
func HomeOf(instance string) (Home, error) {
	root, err := homes()
	if err != nil {
		return "", err
	}
	return Home(filepath.Join(root, instance)), nil
}

// History returns the folder with the ended jobs of all instances: see package history.
func History() (string, error) {
	root, err := homes()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".history"), nil // no instance has a name with a point in front
}

// homes returns the folder of all homes.
func homes() (string, error) {
	root := os.Getenv("FILCH_HOME")
	if root == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", filch.Errorf(filch.Invalid, "cannot find the home directory: %s", Cause(err)).
				WithHint("set HOME, or FILCH_HOME to a directory of your own")
		}
		root = filepath.Join(user, ".filch")
	}
	return root, nil
}

// Secret is the path of the file with the instance's secret.
func (h Home) Secret() string { return filepath.Join(string(h), "secret") }

// Contact is the path of the contact file.
func (h Home) Contact() string { return filepath.Join(string(h), "contact.json") }

// Make makes the home, private to the user. Make checks the folder of all instances and
// its parent, no other directory above: a user able to rename the home directory itself
// controls the shell's files as well.
func (h Home) Make() error {
	all := filepath.Dir(string(h))
	if err := os.MkdirAll(all, 0o700); err != nil {
		return filch.Errorf(FaultKind(err), "cannot make %s: %s", all, Cause(err))
	}
	if err := cmp.Or(checkHolder(filepath.Dir(all)), checkHolder(all), Ambiguous()); err != nil {
		return cannotKeep(all, err, "set FILCH_HOME to a directory of your own")
	}
	return private(string(h))
}

// Queues is the folder of the instance's queues. Queues outlive the instance: see
// package mirror.
func (h Home) Queues() string { return filepath.Join(string(h), "queue") }

// Remove removes the files, but not the queues.
func (h Home) Remove() error {
	entries, err := os.ReadDir(string(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if path := filepath.Join(string(h), e.Name()); path != h.Queues() {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	_ = os.Remove(string(h)) // fails while queues are left
	return err
}

// Contact holds the addresses of the launchers of an instance.
type Contact struct {
	Instance string   `json:"instance"` // its two words
	UUID     string   `json:"uuid"`
	Wire     int      `json:"wire"`
	Addrs    []string `json:"addrs"` // launchers that were up at the time of writing
}

// maxPrivate bounds the files read from a home.
const maxPrivate = 256 << 10

// WriteContact replaces the contact file.
func (h Home) WriteContact(c Contact) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return WritePrivate(h.Contact(), append(b, '\n'))
}

// Limits of Answering.
const (
	answerTries = 8           // addresses
	answerWait  = time.Second // for a connection
)

// Answering is an address of the first 8 that answers within a second, "" when none does.
func (c *Contact) Answering() string {
	var mu sync.Mutex // guards alive
	alive := ""
	var all sync.WaitGroup
	for _, addr := range c.Addrs[:min(len(c.Addrs), answerTries)] {
		all.Go(func() {
			conn, err := net.DialTimeout("tcp", addr, answerWait)
			if err != nil {
				return
			}
			_ = conn.Close()
			mu.Lock()
			defer mu.Unlock()
			alive = addr
		})
	}
	all.Wait()
	return alive
}

// ReadContact reads the contact file.
func (h Home) ReadContact() (Contact, error) {
	var c Contact
	b, err := ReadPrivate(h.Contact())
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, filch.Errorf(filch.Invalid, "cannot read %s: %s", h.Contact(), Cause(err)).
			WithHint("remove the file and join again")
	}
	return c, nil
}

// SecretBytes is the length of a secret.
const SecretBytes = 32

// WriteSecret writes a secret to path.
func WriteSecret(path string, secret []byte) error {
	return WritePrivate(path, append(hex.AppendEncode(nil, secret), '\n'))
}

// ReadSecret reads a secret written by WriteSecret.
func ReadSecret(path string) ([]byte, error) {
	b, err := ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	return ParseSecret(b, path)
}

// ParseSecret decodes the contents of a secret's file; from names the source.
func ParseSecret(b []byte, from string) ([]byte, error) {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	secret := make([]byte, hex.DecodedLen(len(b)))
	if n, err := hex.Decode(secret, b); err != nil || n != SecretBytes {
		return nil, filch.Errorf(filch.Invalid, "cannot use the secret in %s: a secret has %d hexadecimal digits", from, 2*SecretBytes).
			WithHint("copy the whole file, for example with scp")
	}
	return secret, nil
}

// ReadPrivate reads a small file that only its owner may read. ReadPrivate refuses a
// link, a file of another user and a file readable by others.
func ReadPrivate(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return nil, filch.Errorf(filch.Denied, "cannot read %s: it is a symbolic link", path)
		}
		kind := filch.Invalid
		if errors.Is(err, unix.ENOENT) {
			kind = filch.NotFound
		}
		return nil, filch.Errorf(kind, "cannot read %s: %s", path, Cause(err))
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, Cause(err))
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, filch.Errorf(filch.Denied, "cannot read %s: it is not a file", path)
	case int(s.Uid) != os.Getuid():
		return nil, filch.Errorf(filch.Denied, "cannot read %s: it belongs to uid %d, not to %d", path, s.Uid, os.Getuid())
	case s.Mode&0o077 != 0:
		return nil, filch.Errorf(filch.Denied, "cannot read %s: its mode is %04o, other users may read or write it", path, s.Mode&0o7777).
			WithHint("chmod 600 %s; if other users could read a secret, make a new secret", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxPrivate+1))
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s: %s", path, Cause(err))
	}
	if len(b) > maxPrivate {
		return nil, filch.Errorf(filch.Invalid, "cannot read %s: it is larger than %d bytes", path, maxPrivate)
	}
	return b, nil
}

// WritePrivate replaces a file by a file with mode 0600, whole or not at all.
func WritePrivate(path string, b []byte) error {
	if err := writeWhole(path, b, 0o600); err != nil {
		return filch.Errorf(FaultKind(err), "cannot write %s: %s", path, Cause(err))
	}
	return nil
}
