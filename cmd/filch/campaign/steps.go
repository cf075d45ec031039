package campaign

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/mirror"
)

// up brings the instance of the campaign up; fresh says that the instance is new.
func (r *run) up() (fresh bool, err error) {
	if !r.own {
		return false, nil
	}
	base, err := place.Base()
	if err != nil {
		return false, err
	}
	if len(place.Nodes(base, r.instance)) > 0 {
		if c, err := r.dial(); err == nil {
			c.Close()
			return false, nil
		}
		return false, r.filch(nil, "up") // starts the launcher that has died again
	}
	address := r.address
	if r.iface == "" && address == "" {
		if address, err = bringup.OutwardAddress(); err != nil {
			return false, err
		}
	}
	args := []string{"up", "--nodes", "1", "--slots", "0", "--mirror"}
	if r.iface != "" {
		args = append(args, "--iface", r.iface)
	}
	if address != "" {
		args = append(args, "--address", address)
	}
	home, err := place.HomeOf(r.instance)
	if err != nil {
		return false, err
	}
	if _, err := mirror.Latest(home); err == nil {
		args = append(args, "--resume", r.instance)
		r.resumed = true
	}
	return !r.resumed, r.filch(nil, args...)
}

// poolAdd is the command that defines the pool.
func (r *run) poolAdd() []string {
	args := []string{"pool", "add", r.system[0], "--name", r.poolName(), "--max", strconv.Itoa(r.max), "--idle", r.idle.String()}
	if r.slots != 0 {
		args = append(args, "--slots", strconv.Itoa(r.slots))
	}
	if r.via != "" {
		args = append(args, "--via", r.via)
	}
	return append(append(args, "--"), r.system[1:]...)
}

// submit submits the tasks. A signal waits until all are sent.
func (r *run) submit() (filch.JobID, error) {
	args := []string{"submit", "--job-name", r.name}
	if len(r.words) == 1 {
		if r.folder != "" {
			args = append(args, "--output", r.folder+"/%t", "--error", "-")
		}
		args = append(args, "--each-line")
	}
	var said bytes.Buffer
	if err := r.filch(&said, append(args, r.words...)...); err != nil {
		return 0, err
	}
	text := strings.TrimSpace(said.String())
	id, err := strconv.ParseInt(text[strings.LastIndexByte(text, '\n')+1:], 10, 32)
	if err != nil || id < 1 {
		return 0, filch.Errorf(filch.Internal, "filch submit printed %.80q, and no number of a job", text)
	}
	return filch.JobID(id), nil
}

// filch runs a filch command on the instance of the campaign, to its end. The command prints
// its errors itself; out takes what it prints else, nil: nothing does.
func (r *run) filch(out io.Writer, args ...string) error {
	return r.filchUntil(context.Background(), out, args...)
}

// filchUntil is [run.filch], and ends the command with ctx. The command is in a group of its
// own: the Ctrl-C of a terminal is for the campaign, which lets a list be sent whole.
func (r *run) filchUntil(ctx context.Context, out io.Writer, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := exec.CommandContext(ctx, self, append([]string{"--instance", r.instance}, args...)...)
	p.Stdout, p.Stderr = out, os.Stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, e := unix.IoctlGetTermios(0, unix.TCGETS); e != nil { // a command outside of the group cannot read the terminal
		p.Stdin = os.Stdin
	}
	err = p.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return ui.Exit(ui.CodeOf(exit.ProcessState))
	}
	return err
}

// byJob tells whether filch wait ended with the exit code of the job.
func byJob(err error) bool {
	var code ui.ExitStatus
	return errors.As(err, &code) && code.Code != filch.ExitDown && code.Code != filch.ExitOurs
}
