package place

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Port is where a launcher remembers the port on which it listened: the others look
// for its next life there, and may have been started again as well.
func (d Dir) Port() string { return filepath.Join(d.Path(), "port") }

// WritePort remembers a port.
func (d Dir) WritePort(port uint16) error {
	return WritePrivate(d.Port(), append(strconv.AppendUint(nil, uint64(port), 10), '\n'))
}

// ReadPort is what was remembered; 0 where that cannot be read.
func (d Dir) ReadPort() uint16 {
	b, err := ReadPrivate(d.Port())
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
	return uint16(n)
}
