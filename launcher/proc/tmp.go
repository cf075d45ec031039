package proc

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// tmpPrefix begins the name of every private TMPDIR.
const tmpPrefix = "filch-"

// tmpNodeBytes bounds the name of the node in the name of a private TMPDIR: programs make
// sockets there, and the path of a socket has at most 107 bytes.
const tmpNodeBytes = 16

// TmpDir holds the private TMPDIRs of a node: folders of keepers, and for each launcher a
// folder with the folders of tasks.
func (p Place) TmpDir() string { return filepath.Join(p.Dir, "tmp") }

// TmpName is the name of the private TMPDIR of an attempt of a job or a task on this node,
// as in filch-7.12.1-n2-31: what is 7.12, the attempt 1, the node n2 without its domain. unique
// has no hyphen.
func (p Place) TmpName(what string, attempt filch.Attempt, unique string) string {
	node, _, _ := strings.Cut(string(p.Node), ".")
	return fmt.Sprintf("%s%s.%d-%s-%s", tmpPrefix, what, attempt, node[:min(len(node), tmpNodeBytes)], unique)
}

// IsTmpName reports whether a file in [Place.TmpDir] is the folder of a keeper.
func IsTmpName(name string) bool { return strings.HasPrefix(name, tmpPrefix) }

// KeeperWord is unique among the folders of a node's keepers. n counts the folders of a
// keeper.
func KeeperWord(pid, n int) string { return fmt.Sprintf("%d.%d", pid, n) }

// keeperOf reads the process id of a keeper from a [KeeperWord], also at the end of a
// [Place.TmpName].
func keeperOf(name string) (pid int, ok bool) {
	word, _, _ := strings.Cut(name[strings.LastIndexByte(name, '-')+1:], ".")
	pid, err := strconv.Atoi(word)
	return pid, err == nil && pid > 0
}
