package launcher

import (
	"encoding/hex"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// Limits of a copy.
const (
	// MaxCopyBytes bounds an archive: a program with its libraries.
	MaxCopyBytes = 4 << 30
	// MaxCopyFiles bounds the files in an archive: no program loads as many libraries.
	MaxCopyFiles = 1024
	// CopyRate is the lowest rate at which an archive may reach a node, in bytes a
	// second. The time limits of a launch grow by the transfer time at CopyRate.
	CopyRate = 4 << 20

	maxCopyName = 200 // bytes; with a suffix, the name still fits in a file system
)

// Copy is a program copied to the nodes of a job before the ranks start (--bcast). The
// archive lies in the private folder of the client's node. Each other node fetches the
// archive from its parent in the tree of launches.
type Copy struct {
	From  filch.NodeName // the node of the client, with the archive; set by Submit
	File  string         // name of the archive, without the end; see [IsCopyFile]
	Bytes int64
	Sum   [32]byte // SHA-256
	Name  string   // of the program
	Dest  string   // permanent folder of the program; "": a folder of the job
	// The archive is of a job whose tasks are gangs: nodes keep the archive for further gangs,
	// and File is [KeptFile].
	Kept bool
}

// Archive is the name of the archive's file in the private folder of a node.
func (c *Copy) Archive() string {
	if c.Kept {
		return KeptArchive(c.File)
	}
	return c.File + ArchiveEnd
}

// KeptStart begins the names of the files of archives that nodes keep.
const KeptStart = "kept."

// KeptArchive is the name of the file of an archive that nodes keep.
func KeptArchive(file string) string { return KeptStart + file + ArchiveEnd }

// KeptFile is the name of an archive that nodes keep, from its SHA-256: the same program, with
// the same libraries, has the same archive in all jobs.
func KeptFile(sum [32]byte) string { return hex.EncodeToString(sum[:])[:CopyFileLen] }

// Check rejects a copy with a name leading out of a folder, and a copy larger than
// MaxCopyBytes. Nil means no copy and is valid.
func (c *Copy) Check() *filch.Error {
	switch {
	case c == nil:
		return nil
	case !IsCopyFile(c.File):
		return filch.Errorf(filch.Invalid, "cannot copy a program: %.40q is not the name of an archive", c.File)
	case c.Kept && c.File != KeptFile(c.Sum):
		return filch.Errorf(filch.Invalid, "cannot copy a program: the archive %s has another sum", c.File)
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

// CopyFileLen is the digits of an archive's name: 128 bits.
const CopyFileLen = 32

// IsCopyFile reports whether s is the name of an archive: 32 hexadecimal digits, which are
// random unless the archive is kept.
func IsCopyFile(s string) bool {
	return len(s) == CopyFileLen && strings.Trim(s, "0123456789abcdef") == ""
}

// PlainName reports whether s is the name of a file directly inside a folder, with at
// most maxCopyName bytes.
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

// CopyParent returns the node from which the node at index fetches the copy: its parent
// in the tree of launches. The root fetches the copy from the node of the client.
func (l *Launch) CopyParent(index int32) filch.NodeName {
	if index <= 0 || int(index) >= len(l.Nodes) {
		return l.Copy.From
	}
	return l.Nodes[(index-1)/TreeWidth].Node
}
