package tasks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Limits of bringing a workflow's files.
const (
	collectFiles = 64 // per query
	collectWait  = 10 * time.Minute
	lostShown    = 10
	presentShown = 3
)

func workflowCollectCommand(g *cli.Global) *cobra.Command {
	all, folder := false, ""
	c := &cobra.Command{
		Use:   "collect JOB FILE",
		Short: "copy the files of a detached workflow to its folder",
		Long: `Copies the files that no task of a workflow reads from the nodes to the workflow's
folder. When the job has ended, all nodes then remove the files of the job. FILE is
the workflow of the job.`,
		Example: "  filch workflow collect 12 mosaic.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			defer c.Close()
			id, err := cli.OneJob(args[0], cli.LastJob(c))
			if err != nil {
				return err
			}
			var j launcher.JobInfo
			if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
				return err
			}
			w, _, err := scales{1, 1}.load(args[1])
			if err != nil {
				return err
			}
			if j.Kind != "workflow" || int(j.Tasks.Total) > len(w.Tasks) {
				return filch.Errorf(filch.Invalid, "job %d is not a run of the workflow %s", j.ID, ui.Clean(args[1]))
			}
			if j.Code == nil {
				return filch.Errorf(filch.Busy, "job %d has not ended", j.ID).WithHint("filch wait %d", j.ID)
			}
			f := runFlags{folder: folder}
			if f.folder == "" {
				if f.folder, err = resultsOf(c, j.ID, args[1]); err != nil {
					return err
				}
			}
			if f.folder, err = filepath.Abs(f.folder); err != nil {
				return err
			}
			if int(j.Tasks.Total) < len(w.Tasks) {
				f.all = all
				return f.collectResumed(c, w, j.ID, args[1])
			}
			return collectWorkflow(c, w, j.ID, f.folder, all, false)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "bring all files, also files that a task reads")
	c.Flags().StringVarP(&folder, "chdir", "D", "", "copy the files to `FOLDER` (default: the folder of --keep-in, or the folder of FILE)")
	cli.Synonyms(c.Flags())
	return c
}

// resultsOf is the folder of the job's --keep-in, or else of the file.
func resultsOf(c *client.Client, job filch.JobID, file string) (string, error) {
	records, err := taskrecords.Open(c, job)
	if err != nil {
		return "", err
	}
	if _, extra, err := wire.DecodeOrder(records.Spec.Body); err == nil && extra.Results != "" {
		return extra.Results, nil
	}
	return filepath.Dir(file), nil
}

// collectWorkflow brings the files of an ended job. The nodes forget the other
// files unless a file could not be brought, or keep is set.
func collectWorkflow(c *client.Client, w *workflow.Graph, job filch.JobID, folder string, all, keep bool) error {
	start, _ := w.Readers()
	var files []wire.CollectFile
	for i := range w.Files {
		if f := &w.Files[i]; f.Writer >= 0 && (all || start[i] == start[i+1]) {
			files = append(files, wire.CollectFile{Task: f.Writer, Path: f.Path})
		}
	}
	if err := bring(c, job, folder, files); err != nil || keep {
		return err
	}
	return unstage(c, []filch.JobID{job})
}

// collectResumed brings the files of an ended job that continued other jobs.
func (f *runFlags) collectResumed(c *client.Client, w *workflow.Graph, job filch.JobID, file string) error {
	l, err := readLineage(c, job.String())
	if err != nil {
		return err
	}
	for i := range w.Tasks {
		if l.runs[w.Tasks[i].Name].flow == nil {
			return filch.Errorf(filch.Invalid, "job %d is not a run of the workflow %s: no job ran the task %q", job, ui.Clean(file), w.Tasks[i].Name)
		}
	}
	r := &resumption{lineage: l, run: f, w: w, c: c, places: map[int32]filePlace{}}
	for i := range w.Files {
		if w.Files[i].Writer < 0 {
			continue
		}
		by := r.writer(int32(i))
		if t := by.ended(by.at); t != nil && r.unchanged(w.Files[i].Path, by, t) {
			r.places[int32(i)] = filePlace{workflow.Present, true}
		}
	}
	if err := r.collect(0, nil); err != nil {
		return err
	}
	return unstage(c, r.earlier())
}

// sayPresent prints the files that were in the folder already, if there are any.
func sayPresent(job filch.JobID, folder string, present []string) {
	n := len(present)
	if n == 0 {
		return
	}
	list := strings.Join(present[:min(n, presentShown)], ", ")
	if n > presentShown {
		list += fmt.Sprintf(" and %d more", n-presentShown)
	}
	ui.Say(ui.Clean(fmt.Sprintf("%s has %s of job %d already: %s", folder, filch.Plural(n, "file"), job, list)))
}

// unbrought is the end of a command that could not bring the files, because of err. When tasks did
// not end well, the code is that of the job.
func unbrought(job filch.JobID, file string, ended, err error) error {
	if _, said := err.(ui.ExitStatus); !said {
		code := ui.Fail(err)
		if ui.KindOf(err) == filch.Invalid { // the command line was right when the tasks began
			code = 1
		}
		err = ui.Exit(code)
		ui.Hint(fmt.Sprintf("filch workflow collect %d %s brings the files", job, ui.Clean(file)))
	}
	return cmp.Or(ended, err)
}

// bring brings files that tasks of a job wrote. Tasks that did not end well have
// no files.
func bring(c *client.Client, job filch.JobID, folder string, files []wire.CollectFile) error {
	return bringOr(c, job, folder, files, fmt.Sprintf("the nodes keep the files: filch workflow collect %d FILE tries again; filch retry %d runs again the tasks whose files are lost with a node", job, job))
}

// bringOr is [bring] with a hint for files that could not be copied.
func bringOr(c *client.Client, job filch.JobID, folder string, files []wire.CollectFile, hint string) error {
	var lost, present []string
	for len(files) > 0 {
		n := min(len(files), collectFiles)
		list, err := json.Marshal(files[:n])
		if err != nil {
			return err
		}
		var info wire.CollectInfo
		err = cli.Over(c.Dir, job, fmt.Sprintf("the files of job %d were not copied", job), func(c *client.Client) error {
			return cli.Ask(c, collectWait, &info, wire.VerbCollect, job.String(), folder, string(list))
		})
		if err != nil {
			return err
		}
		present = append(present, info.Present...)
		for _, m := range info.Missing {
			if strings.HasPrefix(m, "cannot get ") {
				lost = append(lost, m)
			}
		}
		files = files[n:]
	}
	sayPresent(job, folder, present)
	for i, m := range lost {
		if i == lostShown {
			ui.Say(fmt.Sprintf("error: and %s more", filch.Plural(len(lost)-i, "file")))
			break
		}
		ui.Say("error: " + ui.Clean(m))
	}
	if len(lost) > 0 {
		ui.Hint(hint)
		return ui.Exit(1)
	}
	return nil
}
