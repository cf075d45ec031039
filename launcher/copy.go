package launcher

import (
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// Limits of a copy.
const (
	// MaxCopyBytes bounds an archive: a program with its libraries.
	MaxCopyBytes = 4 << 30
	// MaxCopyFiles bounds the files in it: no program loads as many libraries.
	MaxCopyFiles = 1024
	// CopyRate is the slowest that an archive may come to a node, in bytes a
	// second: the other limits of a launch are longer by what that takes.
	CopyRate = 4 << 20

	maxCopyName = 200 // of a file; with what is added to it, it still fits in a file system
)

// Copy is a program that is copied to the nodes of a job before it starts
// (--bcast): an archive, which lies in the private folder of one node and is
// fetched by the others, each from its parent in the tree of launches.
type Copy struct {
	From  filch.NodeName // where it is: the node of the client; Submit fills it in
	File  string         // its name there, without the end; see [CopyFile]
	Bytes int64
	Sum   [32]byte // SHA-256
	Name  string   // of the program
	Dest  string   // the folder that it is to be in, for good; "" one of the job's own
}

// Check refuses a copy whose names could lead out of a folder, or that is too
// large. Nil is no copy.
func (c *Copy) Check() *filch.Error {
	switch {
	case c == nil:
		return nil
	case !CopyFile(c.File):
		return filch.Errorf(filch.Invalid, "cannot copy a program: %.40q is not the name of an archive", c.File)
	case !PlainName(c.Name):
		return filch.Errorf(filch.Invalid, "cannot copy a program: %.40q is not the name of a file, of at most %d bytes", c.Name, maxCopyName)
	case c.Dest != "" && (c.Dest[0] != '/' || strings.IndexByte(c.Dest, 0) >= 0):
		return filch.Errorf(filch.Invalid, "cannot copy %s: %.40q is not an absolute path", c.Name, c.Dest)
	case c.Bytes <= 0 || c.Bytes > MaxCopyBytes:
		return filch.Errorf(filch.Invalid, "cannot copy %s: it has %d bytes with its libraries, the most is %d", c.Name, c.Bytes, int64(MaxCopyBytes))
	}
	return nil
}

// ArchiveEnd is the end of the names of archives.
const ArchiveEnd = ".tar"

// copyFileLen is the digits of an archive's name: 128 bits.
const copyFileLen = 32

// CopyFile reports whether s is the name of an archive: 32 random hexadecimal
// digits.
func CopyFile(s string) bool {
	return len(s) == copyFileLen && strings.Trim(s, "0123456789abcdef") == ""
}

// PlainName reports whether s names a file in a folder, and not another one.
func PlainName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxCopyName && !strings.ContainsAny(s, "/\x00")
}

// Wait is how long a copy may take to be on all nodes; nil takes no time.
func (c *Copy) Wait() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.Bytes/CopyRate) * time.Second
}

// CopyParent is the node of which the one at index fetches the copy: its
// parent in the tree, which the first one has in the node of the client.
func (l *Launch) CopyParent(index int32) filch.NodeName {
	if index <= 0 || int(index) >= len(l.Nodes) {
		return l.Copy.From
	}
	return l.Nodes[(index-1)/TreeWidth].Node
}

// prepareWait is how long the keepers of a run may take until all are ready.
func (r *run) prepareWait() time.Duration { return PrepareWait + r.launch.Copy.Wait() }
