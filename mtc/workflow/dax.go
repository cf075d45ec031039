package workflow

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// A DAX is the abstract workflow of Pegasus, in XML: jobs with their files, then children
// with their parents. The reader supports version 2, which states run times and sizes,
// and version 3, which may state both in profiles.

type daxReader struct {
	src    source
	dec    *xml.Decoder
	b      *builder
	g      struct{ name, version string }
	job    int32  // the open job, -1 none
	timed  bool   // the open job has a run time
	child  string // the open child
	inArgs string // the key of the profile whose text is next; "" none that counts
	text   strings.Builder
	counts struct {
		jobs, children                 int
		jobsInHead, childrenInHead     int
		jobsInHeadGiven, childrenGiven bool
	}
}

func readDAX(src source, text []byte) (*Graph, error) {
	d := &daxReader{src: src, dec: xml.NewDecoder(bytes.NewReader(text)), b: newBuilder(src, true), job: -1}
	for depth := 0; ; {
		tok, err := d.dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, d.explain(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if depth++; depth > NestingMax {
				return nil, src.errorf(d.line(), "elements are nested more than %d deep", NestingMax)
			}
			if depth == 1 && tok.Name.Local != "adag" {
				return nil, src.errorf(d.line(), "this is no DAX: it begins with <%s>, not with <adag>", clipName(tok.Name.Local))
			}
			err = d.open(tok)
		case xml.EndElement:
			depth--
			err = d.close(tok.Name.Local)
		case xml.CharData:
			if d.inArgs != "" && d.text.Len() < NameMax {
				d.text.Write(tok)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	d.count()
	g, err := d.b.finish()
	if err != nil {
		return nil, err
	}
	g.Name, g.Format = d.g.name, strings.TrimRight("DAX "+d.g.version, " ")
	return g, nil
}

func clipName(s string) string { return strings.Trim(quote(s), `"`) }

func (d *daxReader) line() int {
	line, _ := d.dec.InputPos()
	return line
}

func (d *daxReader) explain(err error) error {
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		return d.src.errorf(syntax.Line, "this is no XML: %s", syntax.Msg)
	}
	return d.src.errorf(d.line(), "this is no XML: %v", err)
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (d *daxReader) open(e xml.StartElement) error {
	line := d.line()
	switch e.Name.Local {
	case "adag":
		d.g.name, d.g.version = attr(e, "name"), attr(e, "version")
		d.counts.jobsInHead, d.counts.jobsInHeadGiven = head(e, "jobCount")
		d.counts.childrenInHead, d.counts.childrenGiven = head(e, "childCount")
	case "job", "dag", "dax":
		if d.job >= 0 {
			return d.src.errorf(line, "task %s: a job inside it", quote(d.b.g.Tasks[d.job].Name))
		}
		return d.openJob(e, line)
	case "uses":
		if d.job < 0 {
			return nil // of a transformation
		}
		return d.use(e, line)
	case "profile":
		d.inArgs = ""
		if key := attr(e, "key"); d.job >= 0 && (key == "runtime" && !d.timed || key == "cores") {
			d.inArgs = key
		}
		d.text.Reset()
	case "child":
		if d.child = attr(e, "ref"); d.child == "" {
			return d.src.errorf(line, "a child without a ref")
		}
		if _, ok := d.b.tasks[d.child]; !ok {
			return d.unknown(d.child, line)
		}
		d.counts.children++
	case "parent":
		if d.child == "" {
			return d.src.errorf(line, "a parent outside of a child")
		}
		return d.b.after(d.b.tasks[d.child], attr(e, "ref"), line)
	}
	return nil
}

func (d *daxReader) unknown(ref string, line int) error {
	err := d.src.errorf(line, "the child %s is not in this file, or only below this line", quote(ref))
	if near := nearest(ref, d.b.names()); near != "" {
		return err.WithHint("did you mean %s?", quote(near))
	}
	return err
}

func head(e xml.StartElement, name string) (n int, ok bool) {
	n, err := strconv.Atoi(attr(e, name))
	return n, err == nil
}

func (d *daxReader) openJob(e xml.StartElement, line int) error {
	t, err := d.b.task(attr(e, "id"), attr(e, "name"), line)
	if err != nil {
		return err
	}
	d.job, d.timed = t, false
	d.counts.jobs++
	if stated := attr(e, "cores"); stated != "" {
		if err := d.cores(stated, line); err != nil {
			return err
		}
	}
	if stated := attr(e, "runtime"); stated != "" {
		return d.time(stated, line)
	}
	return nil
}

// cores takes in the number of cores of a job: an attribute, or a profile.
func (d *daxReader) cores(stated string, line int) error {
	task := &d.b.g.Tasks[d.job]
	n, ok := count(strings.TrimSpace(stated), 1, CPUsMax)
	if !ok {
		return d.src.errorf(line, "task %s: cores %s is not a number from 1 to %d", quote(task.Name), quote(stated), CPUsMax)
	}
	task.Need.CPUs = n
	return nil
}

func (d *daxReader) time(stated string, line int) error {
	d.timed = true
	seconds, err := strconv.ParseFloat(strings.TrimSpace(stated), 64)
	if err != nil && !math.IsInf(seconds, 0) {
		return d.src.errorf(line, "task %s: its run time %s is no number", quote(d.b.g.Tasks[d.job].Name), quote(stated))
	}
	return d.b.cost(d.job, seconds, line)
}

func (d *daxReader) use(e xml.StartElement, line int) error {
	task := &d.b.g.Tasks[d.job]
	name := attr(e, "file")
	if name == "" {
		name = attr(e, "name")
	}
	if name == "" {
		return d.src.errorf(line, "task %s uses a file without a name", quote(task.Name))
	}
	size := int64(-1)
	if stated := attr(e, "size"); stated != "" {
		var err error
		if size, err = d.b.size(task.Name, name, json.Number(stated), line); err != nil {
			return err
		}
	}
	switch link := attr(e, "link"); link {
	case "input":
		return d.b.input(d.job, name, size, line)
	case "output":
		return d.b.output(d.job, name, size, line)
	case "inout":
		if err := d.b.input(d.job, name, size, line); err != nil {
			return err
		}
		return d.b.output(d.job, name, size, line)
	case "executable", "checkpoint", "none":
		return nil
	default:
		return d.src.errorf(line, "task %s: the file %s is linked as %s, not as input or output", quote(task.Name), quote(name), quote(link))
	}
}

func (d *daxReader) close(name string) error {
	switch name {
	case "job", "dag", "dax":
		if !d.timed && d.job >= 0 {
			d.b.traps.add(TrapUntimed, "%s", d.b.g.Tasks[d.job].Name)
		}
		d.job = -1
	case "child":
		d.child = ""
	case "profile":
		key := d.inArgs
		d.inArgs = ""
		switch key {
		case "runtime":
			return d.time(d.text.String(), d.line())
		case "cores":
			return d.cores(d.text.String(), d.line())
		}
	}
	return nil
}

func (d *daxReader) count() {
	c := &d.counts
	if c.jobsInHeadGiven && c.jobsInHead != c.jobs {
		d.b.traps.add(TrapCount, "jobCount is %d, there are %d", c.jobsInHead, c.jobs)
	}
	if c.childrenGiven && c.childrenInHead != c.children {
		d.b.traps.add(TrapCount, "childCount is %d, there are %d", c.childrenInHead, c.children)
	}
}
