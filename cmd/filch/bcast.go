package main

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// --bcast copies the program, with the libraries that are not the system's
// own, to every node that the run may get. The copy is a run of its own, one
// rank per node, which unpacks an archive from its standard input: so it has
// the flow control, the failure handling and the permissions of any run.

// systemLibs are where every node has its own libraries, as srun's
// BcastExclude has them.
var systemLibs = []string{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/lib/x86_64-linux-gnu/"}

// unpack puts the archive into a folder that nobody else can have prepared,
// and moves what is in it to its place: several nodes may share that, and
// somebody may be running what is there.
const unpack = `set -e
umask 077
mkdir -p -- "$1"
cd -- "$1"
new=$(mktemp -d .filch-bcast-XXXXXXXX)
trap 'rm -rf -- "$new"' EXIT
tar -xf - -C "$new"
if [ -d "$new/$2_libs" ]; then
	mkdir -p -- "$2_libs"
	mv -f -- "$new/$2_libs"/* "$2_libs"
fi
mv -f -- "$new/$2" "$2"`

const maxBcastBytes = 4 << 30

// broadcast copies the program of r to the nodes and makes the ranks start the
// copy. The returned function takes the copies away again.
func broadcast(r *spec.Run, around spec.Context) (undo func(), err error) {
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return nil, filch.Errorf(filch.NotFound, "--bcast: cannot find %s here: %s", r.Argv[0], cause(err))
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	dir, name := "", filepath.Base(path)
	undo = func() {}
	if to := r.Client.Bcast; to != "-" {
		if !filepath.IsAbs(to) {
			to = filepath.Join(around.Cwd, to)
		}
		if strings.HasSuffix(r.Client.Bcast, "/") {
			to = filepath.Join(to, name)
		}
		dir, name = filepath.Split(to)
	} else {
		b := make([]byte, 6)
		if _, err := rand.Read(b); err != nil {
			return nil, err
		}
		dir = fmt.Sprintf("/tmp/filch-bcast-%d-%s/", os.Getuid(), hex.EncodeToString(b))
		undo = func() { _ = onNodes(r, nil, "rm", "-rf", "--", dir) }
	}
	archive, libs, err := pack(path, name)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	if err := onNodes(r, archive, "sh", "-c", unpack, "sh", dir, name); err != nil {
		return nil, err
	}
	r.Order.Bcast = filepath.Join(dir, name)
	r.Order.Programs[0].Argv = append([]string{r.Order.Bcast}, r.Argv[1:]...)
	if libs {
		r.Order.Env = prependEnv(r.Order.Env, "LD_LIBRARY_PATH", filepath.Join(dir, name+"_libs"))
	}
	return undo, nil
}

func prependEnv(env []string, name, value string) []string {
	for i, kv := range env {
		if old, ok := strings.CutPrefix(kv, name+"="); ok && old != "" {
			env[i] = name + "=" + value + ":" + old
			return env
		}
	}
	return append(env, name+"="+value)
}

// pack makes an archive, in a file without a name, of the program and its
// libraries.
func pack(path, name string) (archive *os.File, libs bool, err error) {
	f, err := os.CreateTemp("", "filch-bcast-*")
	if err != nil {
		return nil, false, filch.Errorf(filch.Invalid, "--bcast: %s", err.Error())
	}
	_ = os.Remove(f.Name())
	w := tar.NewWriter(f)
	if err = addFile(w, path, name); err == nil {
		for _, lib := range librariesOf(path) {
			libs = true
			if err = addFile(w, lib, name+"_libs/"+filepath.Base(lib)); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, false, filch.Errorf(filch.Invalid, "--bcast: %s", err.Error())
	}
	return f, libs, nil
}

func addFile(w *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxBcastBytes {
		return fmt.Errorf("%s is not a file of at most %d bytes", path, int64(maxBcastBytes))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o700, ModTime: info.ModTime()}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

// librariesOf are the shared libraries that the program loads from elsewhere
// than the system's folders; none for a script or a static program.
func librariesOf(path string) []string {
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil
	}
	var libs []string
	for line := range bytes.SplitSeq(out, []byte("\n")) {
		_, rest, ok := strings.Cut(string(line), "=> ")
		if !ok {
			continue
		}
		lib, _, _ := strings.Cut(rest, " (")
		if filepath.IsAbs(lib) && !hasAnyPrefix(lib, systemLibs...) {
			libs = append(libs, lib)
		}
	}
	return libs
}

// onNodes runs a command once on every node that r may use, with in as its
// standard input.
func onNodes(r *spec.Run, in *os.File, argv ...string) error {
	c, err := client.Dial(client.Options{Instance: r.Client.Instance, Build: version})
	if err != nil {
		return err
	}
	nodes := r.Request.Shape.Only
	if len(nodes) == 0 {
		if nodes, err = eligible(c, r.Request.Shape.Exclude); err != nil {
			c.Close()
			return err
		}
	}
	request, err := copyRequest(r, nodes, in != nil, argv)
	if err != nil {
		c.Close()
		return err
	}
	if c.Dir.Instance != os.Getenv("FILCH_INSTANCE") {
		request.Parent = 0
	}
	run, err := c.Submit(request)
	if err != nil {
		return err
	}
	defer run.Close()
	s := &session{spec: r, run: run, pump: newPump(run, in), sink: &sink{out: os.Stderr, err: os.Stderr}}
	for {
		event, err := run.Next()
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case wire.Output:
			s.print(e)
		case wire.Place:
			if in != nil {
				s.pump.welcome(e)
			}
		case launcher.StillWaiting:
			say(e.Text)
		case launcher.Refused:
			return &e.Err
		case launcher.Ended:
			if e.Code != 0 {
				return filch.Errorf(filch.Invalid, "cannot copy the program: %s", e.Cause.Text)
			}
			return nil
		}
	}
}

// eligible are the nodes that are up and not excluded.
func eligible(c *client.Client, exclude []filch.NodeName) ([]filch.NodeName, error) {
	list, err := queryNodes(c)
	if err != nil {
		return nil, err
	}
	out := map[filch.NodeName]bool{}
	for _, x := range exclude {
		out[x] = true
	}
	var names []filch.NodeName
	for _, n := range list {
		if n.State == "up" && !out[n.Node] {
			names = append(names, n.Node)
		}
	}
	if len(names) == 0 {
		return nil, filch.Errorf(filch.NoFit, "no node is up that the program could be copied to")
	}
	return names, nil
}

func copyRequest(r *spec.Run, nodes []filch.NodeName, stdin bool, argv []string) (*launcher.Request, error) {
	n := int32(len(nodes))
	order := launcher.Order{
		Programs: []launcher.Program{{Argv: argv, Ranks: []launcher.Span{{Count: n}}}},
		Cwd:      "/", Env: r.Order.Env, Umask: r.Order.Umask, MPI: "none",
		IO: launcher.IO{OutRank: -1, ErrRank: -1},
	}
	if !stdin {
		order.IO.StdinMode = launcher.StdinNone
	}
	body, err := wire.Marshal(&order)
	if err != nil {
		return nil, err
	}
	return &launcher.Request{
		Name: "bcast", Parent: r.Request.Parent, Patient: r.Request.Patient, Order: body,
		Shape: launcher.Shape{
			Ranks: n, MinNodes: n, MaxNodes: n, PerNode: 1, Only: nodes, Overcommit: true,
			PerRank: launcher.Room{Slots: 1},
		},
		Policy: launcher.Policy{KillOnBad: true, KillWait: r.Request.Policy.KillWait},
	}, nil
}
