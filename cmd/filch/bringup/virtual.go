package bringup

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// A virtual node is a launcher in its own namespaces (uts, ipc, mount, and user
// when we are not root), so that its ranks have their own host name, /dev/shm and
// System V memory, as on another machine. filch starts itself in the new
// namespaces as `filch virtual NAME HOSTS COMMAND...`, which sets the namespaces
// up and becomes the launcher; exec drops the capabilities again.

// isolate makes cmd start in new namespaces.
func isolate(attr *syscall.SysProcAttr) {
	attr.Cloneflags = unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNS
	if uid := os.Getuid(); uid != 0 {
		gid := os.Getgid()
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
}

// canIsolate tries to make the namespaces of a virtual node; the error is the
// kernel's reason to refuse.
func canIsolate() error {
	cmd := exec.Command("/proc/self/exe", "virtual", "probe", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	isolate(cmd.SysProcAttr)
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	if err != nil && said.Len() > 0 {
		return fmt.Errorf("%s", strings.TrimSpace(said.String()))
	}
	return err
}

// VirtualMain is `filch virtual NAME HOSTS COMMAND...`, in the new namespaces.
func VirtualMain(args []string) int {
	runtime.LockOSThread() // a thread has the capabilities that exec keeps
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "filch virtual is started by filch up, not by hand")
		return 2
	}
	if err := cmp.Or(place.Ambiguous(), furnish(args[0], args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(args) == 2 {
		return 0
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "cannot drop capabilities:", err)
		return 1
	}
	err := unix.Exec(args[2], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "cannot start %s: %v\n", args[2], err)
	return 1
}

func VirtualCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "virtual",
		Hidden:             true,
		Short:              "run a launcher in new namespaces; started by filch up",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE:               func(_ *cobra.Command, args []string) error { return ui.Exit(VirtualMain(args)) },
	}
}

// furnish gives the namespaces their host name, an empty /dev/shm, and an
// /etc/hosts with the other virtual nodes.
func furnish(name, hosts string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	// A slave sees later mounts of the machine, such as homes that an automounter brings,
	// and the machine sees none of the namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("cannot make mounts slaves of the machine's: %w", err)
	}
	if err := unix.Mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("cannot mount /dev/shm: %w", err)
	}
	if hosts != "" {
		// Programs that look up their own name find the name; other programs are
		// no worse off without.
		_ = unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, "")
	}
	return nil
}

// hostsFile is the text of /etc/hosts with the virtual nodes added.
func hostsFile(names []string) []byte {
	old, _ := os.ReadFile("/etc/hosts")
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old, '\n')
	}
	for _, n := range names {
		old = fmt.Appendf(old, "127.0.0.1 %s\n", n)
	}
	return old
}
