package wire

import "github.com/filch-hpc/filch"

// TaskGrow adds tasks to an open job: one for each line, or Count tasks. A frame with a
// Token used before adds nothing. Close closes the job for further tasks.
type TaskGrow struct {
	Job   filch.JobID
	Token int32
	Count int32
	Lines [][]byte
	Close bool
}

// TaskFollow subscribes a client to a job of tasks until the client disconnects.
type TaskFollow struct{ Job filch.JobID }

// Fetch asks a node for a part of a file of a workflow: a file that task Writer wrote
// there, or with -1 a file in Folder on the node. With Copy, Fetch asks for a part of
// the named archive, whose sum must be Sum.
type Fetch struct {
	Job    filch.JobID
	Writer int32
	Path   string
	Folder string
	Offset int64
	Copy   string
	Sum    [32]byte
}

// Part is a part of a file, or the reason for none. Size, Sum and Exec are the whole
// file's: equal values show that all parts are of the same file.
type Part struct {
	Size int64
	Sum  [32]byte // SHA-256
	Exec bool
	Data []byte
	Err  *filch.Error
}

// PartBytes is the size of a part; the last part of a file may be smaller.
const PartBytes = 512 << 10
