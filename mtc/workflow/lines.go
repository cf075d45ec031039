package workflow

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
)

// LineMax bounds the length of a line: Linux takes no longer word of a command.
const LineMax = 128<<10 - 1

// Lines reads a list line by line.
type Lines struct {
	src       source
	r         *bufio.Reader
	skipBlank bool
	line      int
}

// NewLines reads lines from r; name is for messages. Lines end at newlines, with or
// without a carriage return. If commands is set, blank lines are skipped.
func NewLines(r io.Reader, name string, commands bool) *Lines {
	return &Lines{src: source{name}, r: bufio.NewReaderSize(r, 64<<10), skipBlank: commands}
}

// At is the place of the last returned line, for messages.
func (l *Lines) At() string { return l.src.at(l.line) }

// Next is the next line, or io.EOF.
func (l *Lines) Next() (string, error) {
	for {
		text, err := l.read()
		if err != nil {
			return "", err
		}
		text = strings.TrimSuffix(text, "\r")
		if strings.IndexByte(text, 0) >= 0 {
			return "", l.src.errorf(l.line, "the line holds a NUL byte")
		}
		if !l.skipBlank || strings.TrimSpace(text) != "" {
			return text, nil
		}
	}
}

func (l *Lines) read() (string, error) {
	var long []byte
	l.line++
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(long)+len(piece) > LineMax+2 {
			return "", l.src.errorf(l.line, "the line has more than %d bytes", LineMax)
		}
		switch {
		case err == nil:
			return l.whole(append(long, piece[:len(piece)-1]...))
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, piece...)
		case errors.Is(err, io.EOF) && len(long)+len(piece) > 0:
			return l.whole(append(long, piece...))
		case errors.Is(err, io.EOF):
			return "", io.EOF
		default:
			return "", fmt.Errorf("cannot read %s: %w", l.src.name, err)
		}
	}
}

func (l *Lines) whole(text []byte) (string, error) {
	if len(text) > LineMax {
		return "", l.src.errorf(l.line, "the line has more than %d bytes", LineMax)
	}
	return string(text), nil
}

// All puts the remaining lines into values.
func (l *Lines) All(v *Values) error {
	for {
		text, err := l.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := v.Add(text); err != nil {
			return err
		}
	}
}

// separator reads GNU parallel's words between a command and its sources.
func separator(word string) (files, linked, is bool) {
	switch word {
	case ":::":
		return false, false, true
	case ":::+":
		return false, true, true
	case "::::":
		return true, false, true
	case "::::+":
		return true, true, true
	}
	return false, false, false
}

func isSeparator(word string) bool {
	_, _, is := separator(word)
	return is
}

// HasSources reports whether a word of args separates sources of values.
func HasSources(args []string) bool {
	return slices.ContainsFunc(args, isSeparator)
}

// ParseSources reads the words of a command line in GNU parallel's manner: the command,
// then its sources: `::: a b c` lists values, `:::: FILE...` takes the lines of files,
// and a + behind either links a source to the source before. Open opens a file; "-" is
// standard input.
func ParseSources(args []string, open func(name string) (io.ReadCloser, error)) (*Bag, error) {
	b := &Bag{}
	at := slices.IndexFunc(args, isSeparator)
	if at < 0 {
		at = len(args)
	}
	words := args[:at]
	for at < len(args) {
		word := args[at]
		files, linked, _ := separator(word)
		end := len(args)
		if next := slices.IndexFunc(args[at+1:], isSeparator); next >= 0 {
			end = at + 1 + next
		}
		values := args[at+1 : end]
		if len(values) == 0 {
			return nil, filch.Errorf(filch.Invalid, "no value follows %s", word)
		}
		if linked && len(b.Sources) == 0 {
			return nil, filch.Errorf(filch.Invalid, "%s links to the source before it, and there is none", word)
		}
		if err := b.addSource(values, files, linked, open); err != nil {
			return nil, err
		}
		at = end
	}
	var err error
	if b.Template, err = NewTemplate(words, len(b.Sources), true); err != nil {
		return nil, err
	}
	return b, b.Check()
}

func (b *Bag) addSource(values []string, files, linked bool, open func(string) (io.ReadCloser, error)) error {
	if !files {
		s := Source{Linked: linked}
		for _, v := range values {
			if strings.IndexByte(v, 0) >= 0 || len(v) > LineMax {
				return filch.Errorf(filch.Invalid, "the value %s is too long, or holds a NUL byte", quote(v))
			}
			if err := s.Values.Add(v); err != nil {
				return err
			}
		}
		b.Sources = append(b.Sources, s)
		return nil
	}
	for _, name := range values {
		if len(b.Sources) >= SourcesMax {
			return filch.Errorf(filch.Invalid, "more than %d sources of values", SourcesMax)
		}
		s := Source{Linked: linked}
		f, err := open(name)
		if err != nil {
			return filch.Errorf(filch.NotFound, "cannot read the values of %s: %v", quote(name), err)
		}
		err = NewLines(f, name, false).All(&s.Values)
		_ = f.Close()
		if err != nil {
			return err
		}
		b.Sources = append(b.Sources, s)
	}
	return nil
}
