package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/pool"
)

// pbs is OpenPBS or PBS Professional, from version 14 on (qstat -F json). It was never run
// with a real PBS; a made-up qsub, qstat and qdel test it.
type pbs struct{ command }

func (s pbs) tools() []string { return s.command.tools("qsub", "qstat", "qdel") }

func (s pbs) submit(ctx context.Context, name, script string, args []string) (string, error) {
	out, err := s.run(ctx, script, slices.Concat([]string{"qsub", "-N", name, "-r", "n"}, args)...)
	if err != nil {
		return "", err
	}
	if out = strings.TrimSpace(out); out == "" {
		return "", filch.Errorf(filch.Internal, "qsub printed no job id")
	}
	return out, nil
}

func (s pbs) look(ctx context.Context) (*pool.Batch, error) {
	out, err := s.run(ctx, "", "qstat", "-f", "-x", "-F", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Jobs map[string]struct {
			Name    string `json:"Job_Name"`
			State   string `json:"job_state"`
			Comment string `json:"comment"`
			Exit    *int   `json:"Exit_status"`
			Asks    struct {
				Nodes int    `json:"nodect"`
				Wall  string `json:"walltime"`
			} `json:"Resource_List"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot read what qstat printed: %s", err.Error())
	}
	b := &pool.Batch{Jobs: map[string]pool.Job{}, Name: map[string]string{}}
	for id, j := range list.Jobs { // any order: names are unique among jobs that are not over
		to := pbsJob(j.State, j.Comment, j.Exit)
		to.Asked = asked(strconv.Itoa(j.Asks.Nodes), j.Asks.Wall)
		b.Jobs[id] = to
		if to.State != pool.JobOver || b.Name[j.Name] == "" {
			b.Name[j.Name] = id
		}
	}
	return b, nil
}

// pbsJob maps the states of PBS (qstat(1B)).
func pbsJob(state, comment string, exit *int) pool.Job {
	j := pool.Job{Said: comment}
	switch state {
	case "Q", "T", "W", "M":
		j.State = pool.JobQueued
	case "H":
		j.State = pool.JobHeld
	case "B", "R", "E", "S", "U":
		j.State = pool.JobRunning
	default: // F, X, C
		j.State = pool.JobOver
		if exit != nil {
			j.Said = strings.TrimSpace(fmt.Sprintf("exit status %d %s", *exit, comment))
			j.Cancelled = *exit == 271 // qdel of a running job: 256 + SIGTERM
		}
	}
	return j
}

func (s pbs) cancel(ctx context.Context, id string) error {
	_, err := s.run(ctx, "", "qdel", id)
	return err
}

// hooks are commands of the user: submit, look and cancel, by sh -c.
//
// The submit command gets the batch script as its input and the name of the job as $1, and
// prints the number of the job. The look command prints a line for each job: NUMBER NAME
// STATE [NODES*TIME] REASON, with the states queued, held, running, over and cancelled, and
// the nodes and the time limit that the job asks for. The cancel command gets the number as $1.
type hooks struct{ commands []string }

func (h hooks) tools() []string { return []string{"sh"} }

func hooksText(n int) *filch.Error {
	return filch.Errorf(filch.Invalid, "a pool of hooks takes three commands: submit, look and cancel; it has %d", n)
}

func (h hooks) sh(ctx context.Context, which int, input string, args ...string) (string, error) {
	if len(h.commands) != 3 {
		return "", hooksText(len(h.commands))
	}
	return command{}.run(ctx, input, append([]string{"sh", "-c", h.commands[which], "filch"}, args...)...)
}

func (h hooks) submit(ctx context.Context, name, script string, _ []string) (string, error) {
	out, err := h.sh(ctx, 0, script, name)
	if err == nil && strings.TrimSpace(out) == "" {
		err = filch.Errorf(filch.Internal, "the submit command printed no number")
	}
	return strings.TrimSpace(out), err
}

func (h hooks) look(ctx context.Context) (*pool.Batch, error) {
	out, err := h.sh(ctx, 1, "")
	if err != nil {
		return nil, err
	}
	b := &pool.Batch{Jobs: map[string]pool.Job{}, Name: map[string]string{}}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		state := map[string]pool.JobState{"queued": pool.JobQueued, "held": pool.JobHeld, "running": pool.JobRunning, "over": pool.JobOver, "cancelled": pool.JobOver}[f[2]]
		if state == 0 {
			return nil, filch.Errorf(filch.Invalid, "the look command printed the state %.40q; known are queued, held, running, over and cancelled", f[2])
		}
		j := pool.Job{State: state, Cancelled: f[2] == "cancelled"}
		said := f[3:]
		if len(said) > 0 {
			nodes, limit, ok := strings.Cut(said[0], "*")
			if j.Asked = asked(nodes, limit); ok && j.Asked > 0 {
				said = said[1:]
			} else {
				j.Asked = 0
			}
		}
		j.Said = strings.Join(said, " ")
		b.Jobs[f[0]] = j
		if state != pool.JobOver || b.Name[f[1]] == "" {
			b.Name[f[1]] = f[0]
		}
	}
	return b, nil
}

func (h hooks) cancel(ctx context.Context, id string) error {
	_, err := h.sh(ctx, 2, "", id)
	return err
}
