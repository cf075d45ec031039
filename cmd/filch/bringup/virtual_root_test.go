//go:build root

package bringup

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Mounts of the machine appear in a virtual node, as a site's automounter makes them while
// tasks run; mounts of the virtual node stay inside.
func TestRootVirtualNodeSeesLaterMounts(t *testing.T) {
	site, own := t.TempDir(), t.TempDir()
	failed := make(chan error, 1)
	seen := map[string]bool{}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespaces
		failed <- inNamespaces(site, own, seen)
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !seen["site"] {
		t.Errorf("a mount of the machine is missing in the virtual node")
	}
	if seen["own"] {
		t.Errorf("a mount of the virtual node appeared on the machine")
	}
}

// inNamespaces makes a machine with shared mounts and a virtual node, mounts a folder in
// each, and looks for the mounts in the other.
func inNamespaces(site, own string, seen map[string]bool) error {
	machine, err := newNamespace(func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
	})
	if err != nil {
		return err
	}
	defer unix.Close(machine)
	node, err := newNamespace(func() error { return furnish("n1", "") })
	if err != nil {
		return err
	}
	defer unix.Close(node)
	if err := mountWithFile(own); err != nil {
		return err
	}
	if err := unix.Setns(machine, unix.CLONE_NEWNS); err != nil {
		return err
	}
	seen["own"] = hasFile(own)
	if err := mountWithFile(site); err != nil {
		return err
	}
	if err := unix.Setns(node, unix.CLONE_NEWNS); err != nil {
		return err
	}
	seen["site"] = hasFile(site)
	return nil
}

func newNamespace(prepare func() error) (fd int, err error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return -1, err
	}
	if err := prepare(); err != nil {
		return -1, err
	}
	return unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func mountWithFile(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
}

func hasFile(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "file"))
	return err == nil
}
