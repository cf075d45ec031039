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

// Cgroup is the cgroup of a keeper's ranks, a child of the keeper's own cgroup, where
// this user may make cgroups. The keeper makes the cgroup before a job is known. No
// process escapes from a cgroup: when keeper and launcher are dead, the next launcher
// finds the cgroup by name and kills all processes in the cgroup.
//
// The memory limit and the report of an out-of-memory kill come from the same cgroup
// where the version-2 memory controller is on, else from a cgroup of version 1.
type Cgroup struct {
	dir    string // of version 2, "" none
	FD     int
	memory string // the folder with the limit, of version 1 or 2; "" none
	v1     bool   // memory is of version 1
	Tasks  int    // version 1: the open tasks file, -1 none
	ooms   string // the count of out-of-memory kills when the job began
	base   string // the cgroup in which dir is made, and the beginning of its name
	number int    // among the cgroups of one process
	serial int    // of the dir
	spent  bool   // cgroup.kill was used
}

// cgroupPrefix begins the names of our cgroups.
const cgroupPrefix = "filch-"

// cgroupName names the cgroup of a keeper: the node's name is for people, the hash of the
// state folder and the process id for us.
func cgroupName(p Place, pid int) string {
	h := fnv.New32a()
	h.Write([]byte(p.Dir))
	return fmt.Sprintf("%s%s-%s-%08x-%d", cgroupPrefix, sanitize(p.Instance), sanitize(string(p.Node)), h.Sum32(), pid)
}

// sanitize replaces the characters that a cgroup's name cannot hold.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '-' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}

// NewCgroup makes the cgroup; without the permission to make a cgroup the result is
// empty, and every method does nothing.
func NewCgroup(p Place) *Cgroup { return NewNumberedCgroup(p, 0) }

// NewNumberedCgroup makes the cgroup with this number, where a process has several
// cgroups.
func NewNumberedCgroup(p Place, number int) *Cgroup {
	m := &Cgroup{FD: -1, Tasks: -1, number: number}
	own, ok := ownCgroups().unified()
	if !ok || !mayMakeIn(own) {
		return m
	}
	m.base = filepath.Join(own, cgroupName(p, os.Getpid()))
	if number > 0 {
		m.base += "." + strconv.Itoa(number)
	}
	m.make()
	return m
}

// make makes the cgroup of the next job.
func (m *Cgroup) make() {
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
	m.dir, m.FD = dir, fd
}

// mayMakeIn reports whether this user may make cgroups in dir: the folder and
// cgroup.procs are writable.
func mayMakeIn(dir string) bool {
	return unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
}

// Limit bounds the memory of the ranks to come and reports success.
func (m *Cgroup) Limit(bytes int64) bool {
	if bytes <= 0 {
		return true
	}
	text := strconv.FormatInt(bytes, 10)
	if m.dir != "" && !PathExists(filepath.Join(m.dir, "memory.max")) {
		// The kernel allows this write in the root cgroup, and where no process stands
		// beside our cgroups.
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
	dir := filepath.Join(own, cgroupPrefix+"mem-"+strconv.Itoa(os.Getpid())+"."+strconv.Itoa(m.number))
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return false
	}
	fd, err := unix.Open(filepath.Join(dir, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil || writeFile(filepath.Join(dir, "memory.limit_in_bytes"), text) != nil {
		os.Remove(dir)
		return false
	}
	writeFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), text)
	m.memory, m.v1, m.Tasks = dir, true, fd
	m.ooms = m.oomCount()
	return true
}

// Enter makes the next rank be born in the cgroup.
func (m *Cgroup) Enter(attr *syscall.SysProcAttr) {
	if m.FD >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, m.FD
	}
}

// JoinMemory moves the forking thread into the version-1 cgroup, so that its
// children are born there, and leave moves it back.
func (m *Cgroup) JoinMemory() {
	if m.Tasks >= 0 {
		unix.Pwrite(m.Tasks, []byte(strconv.Itoa(unix.Gettid())), 0)
	}
}

func (m *Cgroup) LeaveMemory() {
	if m.Tasks >= 0 {
		writeFile(filepath.Join(filepath.Dir(m.memory), "tasks"), strconv.Itoa(unix.Gettid()))
	}
}

// OOMKilled reports whether the kernel has killed a process of the job for
// want of memory.
func (m *Cgroup) OOMKilled() bool { return m.memory != "" && m.oomCount() != m.ooms }

// oomCount reads how many processes the kernel has killed in this cgroup for want of
// memory.
func (m *Cgroup) oomCount() string {
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

// Kill kills all of the cgroup at once; older kernels than 5.14 cannot.
func (m *Cgroup) Kill() {
	if m.dir != "" {
		m.spent = true
		writeFile(filepath.Join(m.dir, "cgroup.kill"), "1")
	}
}

// PIDs lists the members.
func (m *Cgroup) PIDs() []int {
	if m.dir == "" {
		return nil
	}
	return members(m.dir)
}

// members lists the processes of a cgroup and of all cgroups below.
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

// Populated reports whether a process is left in the cgroup.
func (m *Cgroup) Populated() bool {
	if m.dir == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(m.dir, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "populated 1")
}

// Reset makes an empty cgroup ready for the next job and reports success. A cgroup in
// which cgroup.kill was used is not used again. Linux 6.14 to 6.18 at least kill every
// process cloned into such a cgroup from then on, since these kernels compare the
// cgroup's count of kills with the count of the parent's cgroup.
func (m *Cgroup) Reset() bool {
	if m.spent {
		m.dropV1()
		unix.Close(m.FD)
		if !removeTree(m.dir) {
			return false
		}
		m.dir, m.FD, m.memory, m.v1, m.ooms, m.spent = "", -1, "", false, "", false
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

func (m *Cgroup) dropV1() {
	if m.Tasks >= 0 {
		unix.Close(m.Tasks)
		removeTree(m.memory)
		m.Tasks = -1
	}
}

// Remove gives the cgroups back.
func (m *Cgroup) Remove() {
	if m.FD >= 0 {
		unix.Close(m.FD)
		removeTree(m.dir)
	}
	m.dropV1()
	*m = Cgroup{FD: -1, Tasks: -1} // the base is gone: make makes no cgroup again
}

// removeTree removes an empty cgroup and the cgroups that a rank has made below.
func removeTree(dir string) bool {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	return os.Remove(dir) == nil
}

// writeFile writes to a file of a cgroup. Only the kernel makes these files: writeFile
// never creates a file.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// cgroups is the content of /proc/self/cgroup: a path per controller name, "" for version
// 2.
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

// find looks for path under the mount points. In a container the path may be that of the
// host, and the mount the container's own root.
func (c cgroups) find(path string, mounts ...string) (string, bool) {
	for _, m := range mounts {
		for _, dir := range []string{filepath.Join(m, path), m} {
			if PathExists(filepath.Join(dir, "cgroup.procs")) {
				return dir, true
			}
		}
	}
	return "", false
}
