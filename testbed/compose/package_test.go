//go:build compose

package compose

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	packageContainer = "filch-package"
	emulatedWithin   = 2 * time.Minute // a command of another architecture
)

// distFile is the file of FILCH_DIST, which `make dist` fills, that a pattern names.
func distFile(t *testing.T, pattern string) string {
	t.Helper()
	dir := os.Getenv("FILCH_DIST")
	if dir == "" {
		t.Fatal("FILCH_DIST does not name the folder of the packages; `make testbed` sets it")
	}
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%d files %s are in %s, want one (%v); make dist", len(names), pattern, dir, err)
	}
	return names[0]
}

// bare is a container of Debian 12 in which nothing is installed.
func bare(t *testing.T) *container {
	t.Helper()
	_ = exec.Command("docker", "rm", "-f", packageContainer).Run()
	id := strings.TrimSpace(command(t, composeWithin, "docker", "run", "-d", "--init", "--name", packageContainer, "debian:bookworm-slim", "sleep", "infinity"))
	t.Cleanup(func() { command(t, composeWithin, "docker", "rm", "-f", packageContainer) })
	return &container{t: t, id: id, name: packageContainer}
}

// TestPackage is the first hour of a user of Debian 12 without Go: install the deb,
// start an instance, run a program, stop, read the manual, remove the package.
func TestPackage(t *testing.T) {
	t.Log(command(t, buildWithin, "./base"))
	deb := distFile(t, "filch_*_"+runtime.GOARCH+".deb")
	n := bare(t)
	n.run(1, "sh", "-c", "command -v go || command -v gcc || command -v filch || exit 1")
	before := n.run(0, "find", "/usr", "/etc", "-xdev", "-type", "f")
	command(t, composeWithin, "docker", "cp", deb, n.id+":/filch.deb")
	n.run(0, "dpkg", "-i", "/filch.deb")

	files := strings.Fields(n.run(0, "dpkg", "-L", "filch"))
	for _, want := range []string{
		"/usr/bin/filch", "/usr/share/man/man1/filch-run.1", "/usr/share/man/man7/filch-environment.7", "/usr/share/bash-completion/completions/filch",
		"/usr/share/zsh/site-functions/_filch", "/usr/share/fish/vendor_completions.d/filch.fish", "/usr/share/filch/sbatch/mpi.sbatch",
		"/usr/share/filch/pbs/mpi.pbs", "/usr/share/doc/filch/copyright", "/usr/share/doc/filch/docs/commands.md",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("the deb lacks %s", want)
		}
	}
	n.run(0, "useradd", "--create-home", "--shell", "/bin/sh", "newcomer")
	for _, user := range []string{"newcomer", "root"} {
		for _, c := range []struct{ line, want string }{
			{"filch up", "is up: "},
			{"filch run -n 4 hostname", ""},
			{"filch submit --wait --array 1-20 -- true", ""},
			{"filch doctor --bundle ~/fault.tar.gz", "fault.tar.gz: "},
			{"filch down", "is down: "},
			{"filch man run", "FILCH-RUN(1)"},
		} {
			out := n.run(0, "su", "-", user, "-c", c.line)
			if !strings.Contains(out, c.want) {
				t.Errorf("%s: %s printed %q, want %q", user, c.line, out, c.want)
			}
			if lines := strings.Count(out, "\n"); strings.HasPrefix(c.line, "filch run ") && lines != 4 {
				t.Errorf("%s: %s printed %d lines, want 4: %q", user, c.line, lines, out)
			}
		}
		eventually(t, 30*time.Second, func() string { // the bare Debian has no pgrep
			if out := n.run(0, "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null"); strings.Contains(out, "filch") {
				return "processes of filch are left: " + out
			}
			return ""
		})
		n.run(0, "sh", "-c", "rm -rf /tmp/filch-* ~"+user+"/.filch ~"+user+"/fault.tar.gz")
	}
	n.run(0, "userdel", "--remove", "newcomer")
	n.run(0, "dpkg", "--purge", "filch")
	after := n.run(0, "find", "/usr", "/etc", "-xdev", "-type", "f")
	for _, f := range strings.Fields(after) {
		if strings.Contains(f, "filch") && !slices.Contains(strings.Fields(before), f) {
			t.Errorf("the package leaves %s behind", f)
		}
	}
}

// The rpm holds the files of the deb, and nothing that the system's packages own.
func TestRPM(t *testing.T) {
	lists := map[string][]string{} // of the files of the debs, by architecture
	for arch, name := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		rpm, deb := distFile(t, "filch-*."+name+".rpm"), distFile(t, "filch_*_"+arch+".deb")
		var inRPM, inDeb []string
		for line := range strings.Lines(command(t, execWithin, "rpm", "-qlvp", rpm)) {
			if f := strings.Fields(line); strings.HasPrefix(line, "-") {
				inRPM = append(inRPM, f[0]+" "+f[len(f)-1])
			} else if path := f[len(f)-1]; !strings.Contains(path, "filch") {
				t.Errorf("%s owns the folder %s", filepath.Base(rpm), path)
			}
		}
		for line := range strings.Lines(command(t, execWithin, "dpkg-deb", "-c", deb)) {
			if f := strings.Fields(line); strings.HasPrefix(line, "-") {
				inDeb = append(inDeb, f[0]+" "+strings.TrimPrefix(f[len(f)-1], "."))
			}
		}
		slices.Sort(inRPM)
		slices.Sort(inDeb)
		if got, want := strings.Join(inRPM, "\n"), strings.Join(inDeb, "\n"); got != want || len(inDeb) < 50 {
			t.Errorf("%s holds\n%s\nand the deb\n%s", filepath.Base(rpm), got, want)
		}
		lists[arch] = inDeb
		if needs := command(t, execWithin, "rpm", "-qp", "--requires", rpm); strings.Contains(needs, ".so") {
			t.Errorf("%s needs libraries: %s", filepath.Base(rpm), needs)
		}
	}
	if a, b := lists["amd64"], lists["arm64"]; !slices.Equal(a, b) {
		t.Errorf("the deb of amd64 holds\n%s\nand the deb of arm64\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// static checks that a binary needs no loader and no library of the machine.
func static(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s names a loader", path)
		}
	}
	if needs, err := f.ImportedLibraries(); err != nil || len(needs) > 0 {
		t.Errorf("%s needs the libraries %q, %v", path, needs, err)
	}
}

// machines are those of ELF, by Go's name.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// carried checks that a binary carries programs of its own architecture alone: the launcher, and
// in it the helper in C, which is the only one that needs the loader and the C library.
func carried(t *testing.T, path, arch string) {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	programs, helpers := 0, 0
	for at := 0; ; at++ {
		next := bytes.Index(all[at:], []byte(elf.ELFMAG))
		if next < 0 {
			break
		}
		at += next
		f, err := elf.NewFile(bytes.NewReader(all[at:]))
		if err != nil || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
			continue // the four bytes alone
		}
		if programs++; f.Machine != machines[arch] {
			t.Errorf("%s carries a program for %v at byte %d", path, f.Machine, at)
		}
		if needs, err := f.ImportedLibraries(); err == nil && slices.Contains(needs, "libc.so.6") {
			helpers++
		}
	}
	if programs < 3 || helpers != 1 {
		t.Errorf("%s has %d programs, want itself, the launcher and the helper; %d of them need the C library, want the helper", path, programs, helpers)
	}
}

// The binaries of both architectures are static and start, those of the other in an
// emulator, and carry their launcher. Checksums are right.
func TestBinaries(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		argv := []string{distFile(t, "filch-*-linux-"+arch)}
		static(t, argv[0])
		carried(t, argv[0], arch)
		if arch != runtime.GOARCH {
			argv = []string{map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}[arch], argv[0]}
		}
		if out := command(t, emulatedWithin, append(argv, "version")...); !strings.Contains(out, " linux/"+arch) {
			t.Errorf("the binary for %s says %q", arch, out)
		}
		if out := command(t, emulatedWithin, append(argv, "version", "--json")...); !strings.Contains(out, `"carries_launcher": true`) {
			t.Errorf("the binary for %s has no launcher: %s", arch, out)
		}
	}
	cmd := exec.Command("sha256sum", "-c", "--strict", "SHA256SUMS")
	cmd.Dir = filepath.Dir(distFile(t, "SHA256SUMS"))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 8 {
		t.Errorf("sha256sum: %v, want 8 files:\n%s", err, out)
	}
}
