package filchd

import (
	"embed"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

//go:embed payload
var payload embed.FS

const payloadName = "payload/filchd"

func CarriesLauncher() bool {
	f, err := payload.Open(payloadName)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// Install writes the launcher and a copy of this binary, which is the keeper, to
// the node-local bin directory, each under the hash of its content. So a running
// instance keeps its original binaries.
func Install(base string) (filchd, keeper string, err error) {
	body, err := embedded()
	if err != nil {
		return "", "", err
	}
	if filchd, err = installOne(base, "filchd", body); err != nil {
		return "", "", err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", "", filch.Errorf(filch.Internal, "cannot read this binary: %s", place.Cause(err))
	}
	keeper, err = installOne(base, "filch", self)
	return filchd, keeper, err
}

// embedded is the launcher inside this program, or for a build without a launcher the file named
// by FILCH_FILCHD.
func embedded() ([]byte, error) {
	if path := os.Getenv("FILCH_FILCHD"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, filch.Errorf(filch.Invalid, "cannot read FILCH_FILCHD: %s", place.Cause(err))
		}
		return b, nil
	}
	b, err := payload.ReadFile(payloadName)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "this filch was built without filchd, the launcher").
			WithHint("build it with: make build BIN=DIR")
	}
	return b, nil
}

// installOne writes body to bin/NAME-HASH unless the file exists, whole or not at
// all.
func installOne(base, name string, body []byte) (string, error) {
	dir := place.Bin(base)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", filch.Errorf(filch.Invalid, "cannot make %s: %s", dir, place.Cause(err))
	}
	path, err := place.Install(dir, name, body)
	if err != nil {
		return "", NoRoom(dir, err)
	}
	return path, executable(dir, path)
}

func NoRoom(dir string, err error) error {
	e := filch.Errorf(filch.Invalid, "cannot write the launcher to %s: %s", dir, place.Cause(err))
	if errors.Is(err, unix.ENOSPC) {
		return e.WithHint("set FILCH_LOCAL to a directory on a disk with room")
	}
	return e
}

// executable refuses a directory whose file system forbids programs.
func executable(dir, path string) error {
	if err := unix.Access(path, unix.X_OK); err != nil {
		return filch.Errorf(filch.Invalid, "cannot start programs from %s: %s", dir, place.Cause(err)).
			WithHint("the file system may be mounted noexec; set FILCH_LOCAL to another directory")
	}
	return nil
}
