package place

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Port is the file in which a launcher saves its listening port: other launchers look
// for the next life of this launcher at the same port, and may have been restarted as
// well.
func (d Dir) Port() string { return filepath.Join(d.Path(), "port") }

// WritePort saves a port.
func (d Dir) WritePort(port uint16) error {
	return WritePrivate(d.Port(), append(strconv.AppendUint(nil, uint64(port), 10), '\n'))
}

// ReadPort returns the saved port; 0 if the file cannot be read.
func (d Dir) ReadPort() uint16 {
	b, err := ReadPrivate(d.Port())
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
	return uint16(n)
}
