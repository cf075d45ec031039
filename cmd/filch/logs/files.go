package logs

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// SayFiles tells where the output of jobs of tasks goes that no node keeps: to the files of -o
// and -e, or nowhere.
func SayFiles(c *client.Client, targets []Target) {
	for i := range targets {
		t := &targets[i]
		if !cli.IsTasks(&t.Info) || i > 0 && t.Job == targets[i-1].Job {
			continue
		}
		spec, err := specOf(c, t.Job)
		if err != nil || spec == nil {
			continue
		}
		if o, _, err := wire.DecodeOrder(spec.Body); err == nil {
			if text := filesText(o); text != "" {
				ui.Say(fmt.Sprintf("job %d: %s", t.Job, text))
			}
		}
	}
}

// filesText names the files of a job's tasks; "" if the nodes keep all output.
func filesText(o *launcher.TaskOrder) string {
	var parts []string
	for _, f := range [...]struct{ stream, name string }{{"standard output", o.Stdout}, {"standard error", o.Stderr}} {
		switch f.name {
		case "":
		case launcher.NoFile:
			parts = append(parts, f.stream+" is not kept")
		case "-":
			if o.Stdout != "" {
				parts = append(parts, f.stream+" goes where standard output goes")
			}
		default:
			if !filepath.IsAbs(f.name) {
				f.name = filepath.Join(o.Cwd, f.name)
			}
			parts = append(parts, f.stream+" goes to the file "+f.name)
		}
	}
	return strings.Join(parts, ", ")
}
