package proc

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// room is the cgroup of a keeper's ranks, where this user may make one: a
// child of the keeper's own. It is made before a job is known. In it nothing
// escapes, even with its keeper and launcher dead: whoever comes next kills the
// whole of it by its name.
//
// The memory limit and the report of an out-of-memory kill come from the same
// cgroup where its version-2 controller is on, else from one of version 1.
type room struct {
	dir    string // of version 2, "" none
	fd     int
	memory string // where the limit is: a folder of version 1 or 2, "" none
	v1     bool   // memory is of version 1
	tasks  int    // version 1: its tasks file, opened
	ooms   string // what its count of kills was when the job began
	base   string // the cgroup in which dir is made, and the beginning of its name
	number int    // among those of one process
	serial int    // of the dir
	spent  bool   // cgroup.kill was used
}

// roomPrefix begins the names of our cgroups.
const roomPrefix = "filch-"

// roomName names the cgroup of a keeper: the node for people, its state folder
// and the process for us.
func roomName(p Place, pid int) string {
	h := fnv.New32a()
	h.Write([]byte(p.Dir))
	return fmt.Sprintf("%s%s-%s-%08x-%d", roomPrefix, sanitize(p.Instance), sanitize(string(p.Node)), h.Sum32(), pid)
}

// sanitize makes a word that a cgroup's name can hold.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '-' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// newRoom makes the cgroup; where that is not allowed the room is empty and
// every method does nothing.
func newRoom(p Place) *room { return newRoomFor(p, 0) }

// newRoomFor makes one of several rooms of this process, by its number.
func newRoomFor(p Place, number int) *room {
	m := &room{fd: -1, tasks: -1, number: number}
	own, ok := ownCgroups().unified()
	if !ok || !mayMakeIn(own) {
		return m
	}
	m.base = filepath.Join(own, roomName(p, os.Getpid()))
	if number > 0 {
		m.base += "." + strconv.Itoa(number)
	}
	m.make()
	return m
}

// make makes the cgroup of the next job.
func (m *room) make() {
	m.serial++
	dir := m.base + "." + strconv.Itoa(m.serial)
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		os.Remove(dir)
		return
	}
	m.dir, m.fd = dir, fd
}

// mayMakeIn reports whether a cgroup is ours to divide: writable by us, and so
// are its members.
func mayMakeIn(dir string) bool {
	return unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
}

// limit bounds the memory of the ranks to come; it reports whether it could.
func (m *room) limit(bytes int64) bool {
	if bytes <= 0 {
		return true
	}
	text := strconv.FormatInt(bytes, 10)
	if m.dir != "" && !exists(filepath.Join(m.dir, "memory.max")) {
		// Allowed in the root, and where no process is beside our cgroups.
		writeFile(filepath.Join(filepath.Dir(m.dir), "cgroup.subtree_control"), "+memory")
	}
	if m.dir != "" && writeFile(filepath.Join(m.dir, "memory.max"), text) == nil {
		writeFile(filepath.Join(m.dir, "memory.swap.max"), "0")
		writeFile(filepath.Join(m.dir, "memory.oom.group"), "0")
		m.memory = m.dir
		m.ooms = m.oomCount()
		return true
	}
	own, ok := ownCgroups().controller("memory")
	if !ok || !mayMakeIn(own) {
		return false
	}
	dir := filepath.Join(own, roomPrefix+"mem-"+strconv.Itoa(os.Getpid())+"."+strconv.Itoa(m.number))
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return false
	}
	fd, err := unix.Open(filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil || writeFile(filepath.Join(dir, "memory.limit_in_bytes"), text) != nil {
		os.Remove(dir)
		return false
	}
	writeFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), text)
	m.memory, m.v1, m.tasks = dir, true, fd
	m.ooms = m.oomCount()
	return true
}

// enter makes the next rank be born in the cgroup.
func (m *room) enter(attr *syscall.SysProcAttr) {
	if m.fd >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, m.fd
	}
}

// joinMemory moves the forking thread into the version-1 cgroup, so that its
// children are born there, and leave moves it back.
func (m *room) joinMemory() {
	if m.tasks >= 0 {
		unix.Pwrite(m.tasks, []byte(strconv.Itoa(unix.Gettid())), 0)
	}
}

func (m *room) leaveMemory() {
	if m.tasks >= 0 {
		writeFile(filepath.Join(filepath.Dir(m.memory), "tasks"), strconv.Itoa(unix.Gettid()))
	}
}

// oomKilled reports whether the kernel has killed a process of the job for
// want of memory.
func (m *room) oomKilled() bool { return m.memory != "" && m.oomCount() != m.ooms }

// oomCount reads how often it has done so in this cgroup.
func (m *room) oomCount() string {
	file := "memory.events"
	if m.v1 {
		file = "memory.oom_control"
	}
	b, _ := os.ReadFile(filepath.Join(m.memory, file))
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n
		}
	}
	return ""
}

// kill kills all of the cgroup at once; older kernels than 5.14 cannot.
func (m *room) kill() {
	if m.dir != "" {
		m.spent = true
		writeFile(filepath.Join(m.dir, "cgroup.kill"), "1")
	}
}

// pids lists the members.
func (m *room) pids() []int {
	if m.dir == "" {
		return nil
	}
	return members(m.dir)
}

// members lists the processes of a cgroup and of those in it.
func members(dir string) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	if entries, err := os.ReadDir(dir); err == nil {
		for _, e := range entries {
			if e.IsDir() {
				pids = append(pids, members(filepath.Join(dir, e.Name()))...)
			}
		}
	}
	for f := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(f); err == nil && n > 0 {
			pids = append(pids, n)
		}
	}
	return pids
}

// populated reports whether a process is left in the cgroup.
func (m *room) populated() bool {
	if m.dir == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(m.dir, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// reset makes an empty room ready for the next job; it reports whether that is
// possible. A cgroup in which cgroup.kill was used is not used again: Linux
// 6.14 to 6.18 at least kill whatever is cloned into it from then on, as they
// compare its count of kills with that of the parent's cgroup.
func (m *room) reset() bool {
	if m.spent {
		m.dropV1()
		unix.Close(m.fd)
		if !removeTree(m.dir) {
			return false
		}
		m.dir, m.fd, m.memory, m.v1, m.ooms, m.spent = "", -1, "", false, "", false
		m.make()
		return m.dir != ""
	}
	if m.memory == m.dir && m.dir != "" && writeFile(filepath.Join(m.dir, "memory.max"), "max") != nil {
		return false
	}
	m.dropV1()
	m.memory, m.v1, m.ooms = "", false, ""
	return true
}

func (m *room) dropV1() {
	if m.tasks >= 0 {
		unix.Close(m.tasks)
		removeTree(m.memory)
		m.tasks = -1
	}
}

// remove gives the cgroups back.
func (m *room) remove() {
	if m.fd >= 0 {
		unix.Close(m.fd)
		removeTree(m.dir)
	}
	m.dropV1()
	*m = room{fd: -1, tasks: -1} // the base is gone: nothing is made again
}

// removeTree removes an empty cgroup and those that a rank has made in it.
func removeTree(dir string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	return os.Remove(dir) == nil
}

// writeFile writes to a file of a cgroup, which exists or is not there to be
// made.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// cgroups is what /proc/self/cgroup says: controller names to paths, "" for
// version 2.
type cgroups map[string]string

func ownCgroups() cgroups {
	b, _ := os.ReadFile("/proc/self/cgroup")
	c := cgroups{}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for name := range strings.SplitSeq(f[1], ",") {
			c[name] = f[2]
		}
	}
	return c
}

// unified is the folder of the process's cgroup of version 2.
func (c cgroups) unified() (string, bool) {
	path, ok := c[""]
	if !ok {
		return "", false
	}
	return c.find(path, "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
}

// controller is the folder of the process's cgroup of version 1.
func (c cgroups) controller(name string) (string, bool) {
	path, ok := c[name]
	if !ok {
		return "", false
	}
	return c.find(path, "/sys/fs/cgroup/"+name)
}

// find looks for path under the places where it is mounted. In a container the
// path may be that of the host, and the mount the container's own root.
func (c cgroups) find(path string, mounts ...string) (string, bool) {
	for _, m := range mounts {
		for _, dir := range []string{filepath.Join(m, path), m} {
			if exists(filepath.Join(dir, "cgroup.procs")) {
				return dir, true
			}
		}
	}
	return "", false
}
