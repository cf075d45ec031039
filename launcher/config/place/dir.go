package place

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// maxSocket is the longest path of a unix socket, with a byte to spare: 104 in the
// smallest sockaddr_un in use.
const maxSocket = 103

// Dir is the state directory of one node.
type Dir struct {
	Base     string
	Instance string
	Node     string
}

// Path returns the directory itself.
func (d Dir) Path() string { return filepath.Join(d.Base, d.Instance, d.Node) }

// Socket returns the path of the socket for clients.
func (d Dir) Socket() string { return d.fit("launcher.sock") }

// The other files of a launcher.
func (d Dir) PIDFile() string  { return filepath.Join(d.Path(), "launcher.pid") }
func (d Dir) NodeFile() string { return filepath.Join(d.Path(), "node.json") }
func (d Dir) Log() string      { return filepath.Join(d.Path(), "log") }
func (d Dir) Jobs() string     { return filepath.Join(d.Path(), "jobs") }
func (d Dir) Keepers() string  { return filepath.Join(d.Path(), "keepers") }
func (d Dir) Out() string      { return filepath.Join(d.Path(), "out") }
func (d Dir) Store() string    { return filepath.Join(d.Path(), "store") }
func (d Dir) Bcast() string    { return filepath.Join(d.Path(), "bcast") }

// DrainFile returns the path of the file with the drain of the node and its reason.
func (d Dir) DrainFile() string { return filepath.Join(d.Path(), "drain.json") }

// Bin returns the folder of the launchers' binaries, named by content hash.
func Bin(base string) string { return filepath.Join(base, binDir) }

// Hosts returns the hostfile of an instance's nodes on this machine.
func Hosts(base, instance string) string { return filepath.Join(base, instance, hostsFile) }

// StoppedFile is the node.json of a launcher that was stopped alone, while others of the
// instance go on.
func (d Dir) StoppedFile() string {
	return filepath.Join(d.Base, d.Instance, stoppedPrefix+d.Node)
}

// Stopped lists the launchers of an instance on this machine that have a
// [Dir.StoppedFile] and no state directory, by name.
func Stopped(base, instance string) (all []Dir) {
	files, _ := filepath.Glob(filepath.Join(base, instance, stoppedPrefix+"*"))
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, f := range files {
		d := Dir{Base: base, Instance: instance, Node: strings.TrimPrefix(filepath.Base(f), stoppedPrefix)}
		if _, err := os.Lstat(d.Path()); err != nil && CheckNode(d.Node) == nil {
			all = append(all, d)
		}
	}
	return all
}

// fit returns name in the directory; if the path is too long for a socket, fit returns
// a hash of the path in BASE.
func (d Dir) fit(name string) string {
	long := filepath.Join(d.Path(), name)
	if len(long) <= maxSocket {
		return long
	}
	sum := sha256.Sum256([]byte(long))
	return filepath.Join(d.Base, name[:1]+hex.EncodeToString(sum[:6]))
}

// Make makes the directory and its subdirectories.
func (d Dir) Make() error {
	if err := cmp.Or(CheckInstance(d.Instance), CheckNode(d.Node)); err != nil {
		return err
	}
	if kind := SharedKind(d.Base); kind != "" {
		return filch.Errorf(filch.Invalid, "cannot keep state in %s: it is on %s, which other nodes share", d.Base, kind).
			WithHint("set FILCH_LOCAL to a directory on a disk of this node")
	}
	if err := cmp.Or(checkAbove(filepath.Dir(d.Base)), Ambiguous()); err != nil {
		return cannotKeep(d.Base, err, "set FILCH_LOCAL to a directory that you may write to")
	}
	for _, dir := range []string{d.Base, filepath.Dir(d.Path()), d.Path(), d.Jobs(), d.Out(), d.Keepers(), d.Store(), d.Bcast()} {
		if err := private(dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(d.keptDir()) // of an earlier launcher of this name: see TakeBack
}

// Remove removes everything that Make made except BASE. Remove also removes the
// instance's directory after its last node.
func (d Dir) Remove() error {
	if err := os.RemoveAll(d.Path()); err != nil {
		return err
	}
	_ = os.Remove(d.Socket())
	_ = os.Remove(filepath.Dir(d.Path())) // fails while other nodes are there
	return nil
}

// Nodes lists the state directories of this machine, ordered by instance and node,
// numbers in names by value. Instance "" lists all instances.
func Nodes(base, instance string) []Dir {
	instances := []string{instance}
	if instance == "" {
		instances = subdirs(base)
	}
	var all []Dir
	for _, i := range instances {
		if CheckInstance(i) != nil {
			continue
		}
		for _, n := range subdirs(filepath.Join(base, i)) {
			if CheckNode(n) == nil {
				all = append(all, Dir{Base: base, Instance: i, Node: n})
			}
		}
	}
	return all
}

func subdirs(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, NaturalOrder)
	return names
}

// NaturalOrder compares names, with numbers in names by value: n2 is before n10.
func NaturalOrder(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			x, y := trimZeros(a[:da]), trimZeros(b[:db])
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if x != y {
				return compare(x, y)
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}
