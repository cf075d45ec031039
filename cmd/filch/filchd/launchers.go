package filchd

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

//go:embed payload
var payload embed.FS

const (
	payloadName = "payload/filchd"
	screenName  = "payload/filchtop.gz"
)

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

// InstallScreen writes filchtop, the program with the screen of filch top, to the node-local
// bin directory of base.
func InstallScreen(base string) (string, error) {
	if path := os.Getenv("FILCH_FILCHTOP"); path != "" {
		return path, nil
	}
	body, err := payload.ReadFile(screenName)
	if err != nil {
		return "", filch.Errorf(filch.Invalid, "this filch was built without filchtop, the screen").
			WithHint("build it with: make build BIN=DIR")
	}
	return install(base, func(dir string) (string, error) { return place.InstallPacked(dir, "filchtop", body, unpack) })
}

// screenMax bounds the unpacked program: what is larger was damaged.
const screenMax = 64 << 20

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, screenMax))
}

// installOne writes body to bin/NAME-HASH unless the file exists, whole or not at
// all.
func installOne(base, name string, body []byte) (string, error) {
	return install(base, func(dir string) (string, error) { return place.Install(dir, name, body) })
}

func install(base string, write func(dir string) (string, error)) (string, error) {
	dir := place.Bin(base)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", filch.Errorf(place.FaultKind(err), "cannot make %s: %s", dir, place.Cause(err))
	}
	path, err := write(dir)
	if err != nil {
		return "", NoRoom(dir, err)
	}
	return path, executable(dir, path)
}

func NoRoom(dir string, err error) error {
	e := filch.Errorf(place.FaultKind(err), "cannot write a program to %s: %s", dir, place.Cause(err))
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
