package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a bundle, in bytes before compression. A person sends the bundle by mail or
// puts it into an issue.
const (
	maxFile   = 1 << 20
	maxBundle = 16 << 20
	maxFiles  = 1000
	maxNotes  = 500
)

// folder holds all files of the archive.
const folder = "filch-bundle/"

// File is a text of a bundle.
type File struct {
	Name string // with slashes, like logs/bold-otter/n1.log
	Text string
}

// Bundle collects files. The zero value is not ready: see [New].
type Bundle struct {
	files  []File
	size   int
	notes  []string // what was left out
	lost   int      // notes beyond maxNotes
	hider  *hider
	hidden int
}

// New returns an empty bundle. The secrets, as exact texts, are replaced wherever they
// stand.
func New(secrets []string) *Bundle { return &Bundle{hider: newHider(secrets)} }

// Add adds a file without its secrets. A text beyond [maxFile] loses its end; a file
// that does not fit into the bundle is left out, and the first page says so.
func (b *Bundle) Add(f File) {
	text, n := b.hider.hide(strings.ToValidUTF8(f.Text, string(utf8.RuneError)))
	if len(text) > maxFile {
		b.Leave("%s: %d of %d bytes, at the end", f.Name, len(text)-maxFile, len(text))
		text = strings.ToValidUTF8(text[:maxFile], "")
	}
	if b.size+len(text) > maxBundle || len(b.files) >= maxFiles {
		b.Leave("%s: a bundle holds at most %d files and %d MiB", f.Name, maxFiles, maxBundle>>20)
		return
	}
	b.hidden += n
	b.size += len(text)
	b.files = append(b.files, File{f.Name, text})
}

// Leave notes what was left out of the bundle, and why.
func (b *Bundle) Leave(format string, args ...any) {
	if len(b.notes) >= maxNotes {
		b.lost++
		return
	}
	note, _ := b.hider.hide(fmt.Sprintf(format, args...))
	b.notes = append(b.notes, strings.ToValidUTF8(note, string(utf8.RuneError)))
}

// Left returns how many notes there are of what was left out, not counting secrets.
func (b *Bundle) Left() int { return len(b.notes) + b.lost }

// Files returns the number of files, with the first page.
func (b *Bundle) Files() int { return len(b.files) + 1 }

// first is the page that describes the bundle.
func (b *Bundle) first(about string) string {
	var p strings.Builder
	p.WriteString(about + "\n\nFiles:\n\n")
	for _, f := range b.files {
		fmt.Fprintf(&p, "  %8d  %s\n", len(f.Text), f.Name)
	}
	p.WriteString("\nLeft out:\n\n")
	p.WriteString("  - the secrets of instances, and their files\n")
	p.WriteString("  - the environment but FILCH_*, names and command lines of jobs, output of ranks and tasks\n")
	fmt.Fprintf(&p, "  - texts that look like a secret, %d times: %s stands for them\n", b.hidden, hiddenText)
	for _, n := range b.notes {
		fmt.Fprintf(&p, "  - %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	if b.lost > 0 {
		fmt.Fprintf(&p, "  - %d more\n", b.lost)
	}
	return p.String()
}

// Pack returns the bundle as a tar in gzip. The first file, README.txt, begins with
// about.
func (b *Bundle) Pack(about string, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, f := range append([]File{{"README.txt", b.first(about)}}, b.files...) {
		head := &tar.Header{Name: folder + f.Name, Mode: 0o600, Size: int64(len(f.Text)), ModTime: now, Format: tar.FormatPAX}
		if err := archive.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(f.Text)); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := zip.Close()
	return out.Bytes(), err
}
