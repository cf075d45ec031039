package keeper

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch/launcher/proc"
)

// Bounds on the libraries read for a program.
const (
	needsFiles = 200
	cacheMax   = 4 << 20
)

// harmlessLibs are beginnings of the names of libraries that load no MPI. Nearly every
// program needs some of these libraries; skipping them leaves few files to read.
var harmlessLibs = []string{
	"libc.so", "libm.so", "libmvec.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "libutil.so", "ld-linux",
	"libgcc_s.so", "libstdc++.so", "libgfortran.so", "libquadmath.so", "libgomp.so", "libz.so", "libtinfo.so",
	"libselinux.so", "libpcre2", "libacl.so", "libattr.so", "libcap.so", "libcrypt", "libssl.so", "libexpat.so",
	"liblapack.so", "libblas.so", "libopenblas",
}

func harmlessLib(name string) bool {
	for _, h := range harmlessLibs {
		if strings.HasPrefix(name, h) {
			return true
		}
	}
	return false
}

// needsOpenMPI reports whether a program is linked with Open MPI.
func needsOpenMPI(exe proc.Program, env []string) bool { return needs(exe, env, openMPI) }

// needs reports whether a program is linked with a library, directly or through another
// library: a linker leaves out libraries that the program itself does not call.
func needs(exe proc.Program, env []string, library func(names []string) bool) bool {
	type object struct {
		path string
		info proc.Binary
	}
	var cache libCache
	given, _ := proc.LookupEnv(env, "LD_LIBRARY_PATH")
	seen := map[string]bool{}
	queue := []object{{exe.Path, exe.Info}}
	var inherited []string // DT_RPATH counts for all libraries loaded later
	for len(queue) > 0 && len(seen) < needsFiles {
		o := queue[0]
		queue = queue[1:]
		if library(o.info.Needed) {
			return true
		}
		if o.info.RunPath == "" {
			inherited = append(inherited, searchPath(o.info.RPath, o.path)...)
		}
		for _, name := range o.info.Needed {
			if seen[name] || harmlessLib(name) {
				continue
			}
			seen[name] = true
			var found []string
			for _, dirs := range [][]string{inherited, filepath.SplitList(given), searchPath(o.info.RunPath, o.path)} {
				for _, d := range dirs {
					found = append(found, filepath.Join(d, name))
				}
			}
			found = append(found, cache.find(name)...)
			for _, path := range found {
				if info, ok := readLibrary(path); ok {
					queue = append(queue, object{path, info})
					break
				}
			}
		}
	}
	return false
}

// searchPath is the folders of a DT_RPATH or DT_RUNPATH.
func searchPath(list, object string) []string {
	if list == "" {
		return nil
	}
	origin := filepath.Dir(object)
	if real, err := filepath.EvalSymlinks(object); err == nil {
		origin = filepath.Dir(real)
	}
	return filepath.SplitList(strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(list))
}

func readLibrary(path string) (proc.Binary, bool) {
	f, err := os.Open(path)
	if err != nil {
		return proc.Binary{}, false
	}
	defer f.Close()
	head := make([]byte, proc.HeadBytes)
	n, _ := f.ReadAt(head, 0)
	info := proc.ReadELF(f, head[:n])
	return info, info.IsELF && n > 4 && head[4] == 2 // of 64 bits
}

// libCache is /etc/ld.so.cache, read on the first lookup.
type libCache struct {
	read bool
	data []byte // from the header of the new format on
}

const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// find lists the cached paths of a library, then the default paths without a cache.
func (c *libCache) find(name string) []string {
	if !c.read {
		c.read = true
		if f, err := os.Open("/etc/ld.so.cache"); err == nil {
			b, _ := io.ReadAll(io.LimitReader(f, cacheMax))
			f.Close()
			if i := bytes.Index(b, []byte(cacheMagic)); i >= 0 {
				c.data = b[i:]
			}
		}
	}
	found := cachedLibs(c.data, name)
	for _, dir := range []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		found = append(found, filepath.Join(dir, name))
	}
	return found
}

// cachedLibs looks name up in a cache (sysdeps/generic/dl-cache.h of glibc).
func cachedLibs(b []byte, name string) []string {
	if len(b) < cacheHeader {
		return nil
	}
	var found []string
	n := int(binary.NativeEndian.Uint32(b[len(cacheMagic):]))
	for i := range min(n, (len(b)-cacheHeader)/cacheEntry) {
		e := b[cacheHeader+i*cacheEntry:]
		if cacheText(b, binary.NativeEndian.Uint32(e[4:])) == name {
			found = append(found, cacheText(b, binary.NativeEndian.Uint32(e[8:])))
		}
	}
	return found
}

func cacheText(b []byte, at uint32) string {
	if uint64(at) >= uint64(len(b)) {
		return ""
	}
	text, _, _ := bytes.Cut(b[at:min(len(b), int(at)+proc.ELFNameMax)], []byte{0})
	return string(text)
}
