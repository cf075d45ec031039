// Package eventlog prints the events of an instance: filch events.
package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/wire"
)

// flags are the options of filch events.
type flags struct {
	follow, json bool
	job, node    string
	since        time.Duration
}

// Command is filch events.
func Command(g *cli.Global) *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:     "events [-f]",
		GroupID: "jobs",
		Short:   "show what happens in the instance: nodes, jobs, tasks, steals",
		Long: `Shows the last events of all nodes: nodes that come and go, jobs and tasks that begin,
move and end, steals, faults. The events of each node are in their order; the events of
different nodes are in the order of the nodes' clocks. Each node keeps its last events in
2 MiB of memory. With -f, filch events shows only new events, unless --since is given, and
goes on until Ctrl-C. A reader who is too slow misses events, and filch events says how
many. Of a change of a node that several nodes report, the first report is shown.

docs/events.md lists the kinds of events, and the keys of --json.`,
		Example: "  filch events\n  filch events -f --job 7\n  filch events --since 10m --node n3\n  filch events -f --json | jq 'select(.event == \"node-lost\")'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			earliest, err := cli.Since(c.Flags(), f.since)
			if err != nil {
				return err
			}
			return f.run(g, earliest)
		},
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on, and show new events as they come")
	c.Flags().StringVar(&f.job, "job", "", "only events of the job `JOB`")
	c.Flags().StringVar(&f.node, "node", "", "only events that the node `NAME` reports")
	cli.TimeVar(c.Flags(), &f.since, "since", 0, "only events of the last `TIME`")
	c.Flags().BoolVar(&f.json, "json", false, "print a JSON object a line")
	return c
}

func (f *flags) run(g *cli.Global, earliest int64) error {
	c, err := g.Dial()
	if err != nil {
		return err
	}
	job := ""
	if f.job != "" {
		named, err := cli.JobTasksOf(c, f.job)
		if err != nil {
			c.Close()
			return cli.OfOption("job", err)
		}
		if len(named) != 1 {
			c.Close()
			return ui.Misused(filch.Errorf(filch.Invalid, "--job takes one job"))
		}
		job = named[0].Job.String()
	}
	var absent error
	if job != "" {
		var info launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &info, wire.VerbInfo, job); ui.KindOf(err) == filch.NotFound {
			absent = err // the nodes may know events of a job that is forgotten
		}
		if absent != nil && f.follow {
			c.Close()
			return absent
		}
	}
	r := &Reader{Follow: f.follow, Node: filch.NodeName(f.node), Job: job, Since: earliest}
	p := &printer{out: bufio.NewWriter(os.Stdout), json: f.json}
	r.Event, r.Idle, r.Lost = p.print, p.flush, sayLost
	if f.follow {
		defer cli.OnInterrupt(func() {})()
	}
	err = errors.Join(r.Run(c), p.flush())
	if err == nil && !p.any {
		return absent
	}
	return err
}

// sayLost says that a node dropped events before this reader had read them.
func sayLost(node filch.NodeName, n uint64) {
	ui.Warn(fmt.Sprintf("%s of %s are lost: the node keeps the last ones only, and this reader is too slow", filch.Plural(int64(n), "event"), node))
}

// printer prints events as lines.
type printer struct {
	out  *bufio.Writer
	json bool
	day  [2]int // year and day of the last event
	line []byte // of the last event
	any  bool   // printed
}

func (p *printer) print(node filch.NodeName, e *events.Event) error {
	p.any = true
	if p.json {
		b, err := json.Marshal(events.LineOf(node, e))
		if err == nil {
			_, err = p.out.Write(append(b, '\n'))
		}
		return err
	}
	at := e.Time().Local()
	if day := [2]int{at.Year(), at.YearDay()}; day != p.day {
		p.day = day
		if _, err := p.out.WriteString(at.Format(time.DateOnly) + "\n"); err != nil {
			return err
		}
	}
	b := at.AppendFormat(p.line[:0], "15:04:05.000")
	b = column(b, string(node), 8)
	b = column(b, e.Kind.String(), 15)
	b = column(b, e.Of(), 10)
	b = column(b, ui.Clean(e.Details()), 0)
	p.line = append(bytes.TrimRight(b, " "), '\n')
	_, err := p.out.Write(p.line)
	return err
}

// column appends a column of a width behind two spaces.
func column(b []byte, text string, width int) []byte {
	b = append(append(b, "  "...), text...)
	for n := utf8.RuneCountInString(text); n < width; n++ {
		b = append(b, ' ')
	}
	return b
}

func (p *printer) flush() error { return p.out.Flush() }

// chunkText is the number of bytes that a query asks for.
var chunkText = strconv.Itoa(chunkBytes)
