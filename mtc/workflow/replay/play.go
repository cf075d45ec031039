package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Play plays a task in a folder with the task's inputs and writes the outputs there. A
// wrong input is an error, and Play writes no output. Outputs appear under their names
// when all are whole and the time is over.
func Play(s Spec, dir string) (err error) {
	begun := time.Now()
	t, err := openTrace(s.Trace)
	if err != nil {
		return fmt.Errorf("cannot open the trace: %w", err)
	}
	r := Record{
		Event: EventStart, Task: s.Task, PID: os.Getpid(), UnixNS: begun.UnixNano(),
		Node: nodeName(), Job: os.Getenv("FILCH_JOB"), Attempt: os.Getenv("FILCH_ATTEMPT"),
	}
	if err := t.append(r); err != nil {
		return errors.Join(fmt.Errorf("cannot write the trace: %w", err), t.close())
	}
	r.Event = EventEnd
	if err = play(s, dir, begun, &r); err != nil {
		r.Error = err.Error()
	}
	r.UnixNS = time.Now().UnixNano()
	r.TookNS = time.Since(begun).Nanoseconds()
	if e := errors.Join(t.append(r), t.close()); e != nil {
		err = errors.Join(err, fmt.Errorf("cannot write the trace: %w", e))
	}
	return err
}

func nodeName() string {
	if n := os.Getenv("FILCH_NODE"); n != "" {
		return n
	}
	n, _ := os.Hostname()
	return n
}

func play(s Spec, dir string, begun time.Time, r *Record) (err error) {
	inputs := make([]Named, 0, len(s.In))
	for _, f := range s.In {
		sum, err := verify(filepath.Join(dir, f.Path), f.Size)
		r.In = append(r.In, touched(f, sum))
		if err != nil {
			return fmt.Errorf("the input %s: %w", f.Path, err)
		}
		inputs = append(inputs, Named{f.Path, sum})
	}
	var parts []string
	defer func() {
		for _, p := range parts {
			_ = os.Remove(p) // parts that were not renamed
		}
	}()
	for _, f := range s.Out {
		part, sum, err := write(filepath.Join(dir, f.Path), f, inputs)
		if part != "" {
			parts = append(parts, part)
		}
		if err != nil {
			return fmt.Errorf("the output %s: %w", f.Path, err)
		}
		r.Out = append(r.Out, touched(f, sum))
	}
	spend(begun.Add(s.Time), s.Burn)
	for i, f := range s.Out {
		if err := os.Rename(parts[i], filepath.Join(dir, f.Path)); err != nil {
			return err
		}
	}
	parts = nil
	return nil
}

func verify(name string, size int64) (Sum, error) {
	f, err := os.Open(name)
	if err != nil {
		return Sum{}, err
	}
	sum, err := Verify(f, size)
	return sum, errors.Join(err, f.Close())
}

// write makes an output under a temporary name in the output's folder.
func write(name string, f File, inputs []Named) (part string, sum Sum, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", sum, err
	}
	out, err := os.CreateTemp(filepath.Dir(name), ".part-*")
	if err != nil {
		return "", sum, err
	}
	sum, err = Make(out, f.Path, f.Size, inputs)
	return out.Name(), sum, errors.Join(err, out.Chmod(0o644), out.Close())
}

// spend lets the time pass until end.
func spend(end time.Time, burn bool) {
	if !burn {
		time.Sleep(time.Until(end))
		return
	}
	var work [4096]byte
	for time.Now().Before(end) {
		for i := range work {
			work[i] = work[i]*31 + byte(i)
		}
	}
}
