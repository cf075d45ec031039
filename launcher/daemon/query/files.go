package query

import (
	"encoding/json"
	"path/filepath"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/wire"
)

// aboutFiles brings files of a workflow to the user, or removes the files.
func (sv *Server) aboutFiles(q wire.Query, arg func(int) string, local bool) (any, error) {
	job, err := sv.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	if q.Verb == wire.VerbUnstage {
		if local {
			peers.AskAll(sv.daemon.Questions, q, func(peers.Member, struct{}, error) {}) // a silent node keeps the files until going down
		}
		return struct{}{}, sv.daemon.Files.Forget(job)
	}
	if !local {
		return nil, filch.Errorf(filch.Denied, "files can be brought only to the node that asks")
	}
	var files []wire.CollectFile
	if err := json.Unmarshal([]byte(arg(2)), &files); err != nil || !filepath.IsAbs(arg(1)) {
		return nil, filch.Errorf(filch.Invalid, "%s takes a job, a folder and files", q.Verb)
	}
	return sv.daemon.Files.Collect(job, arg(1), files, func(index int32) (*launcher.Task, error) { return sv.findTask(job, index) })
}

// staged returns the sizes of files of workflows on a node.
func (sv *Server) staged(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != sv.in.Self {
		return sv.Forward(node, local, q)
	}
	var files []wire.StagedFile
	if err := json.Unmarshal([]byte(arg(1)), &files); err != nil || len(files) > wire.StagedMax {
		return nil, filch.Errorf(filch.Invalid, "%s takes a node and at most %d files", q.Verb, wire.StagedMax)
	}
	return sv.daemon.Files.Sizes(files), nil
}

// outputs lists files of a bag on a node.
func (sv *Server) outputs(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != sv.in.Self {
		return sv.Forward(node, local, q)
	}
	job, err := sv.parseJob(arg(1))
	if err != nil {
		return nil, err
	}
	after := int64(-1)
	if arg(2) != "" {
		if after, err = strconv.ParseInt(arg(2), 10, 32); err != nil {
			return nil, filch.Errorf(filch.Invalid, "%s takes the number of a task, not %q", q.Verb, arg(2))
		}
	}
	return sv.daemon.Files.Outputs(job, int32(after), arg(3))
}
