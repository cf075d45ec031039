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
// there, or with -1 a file in Folder on the node; without a Folder, the node's own copy of
// that file. With Copy, Fetch asks for a part of the named archive, whose sum must be Sum.
// With Names, Fetch asks for the small files among these instead. With Run, the files are
// outputs that ranks of the run left for the node that owns the task of Job; Drop then has
// the node remove them, without an answer.
type Fetch struct {
	Job    filch.JobID
	Writer int32
	Path   string
	Names  []FetchName
	Folder string
	Offset int64
	Copy   string
	Sum    [32]byte
	Run    filch.JobID
	Drop   bool
}

// FetchName is a file as in [Fetch].
type FetchName struct {
	Writer int32
	Path   string
}

// Limits of a [Fetch] with names.
const (
	FetchNames = 128      // names in one request
	SmallFile  = 64 << 10 // larger files are asked for alone, part by part
)

// Parts answers a [Fetch]: one part, or with names the parts of one or more of the first
// names, in their order.
type Parts struct{ Parts []Part }

// Part is a part of a file, or the reason for none. Size, Sum and Exec are the whole
// file's: equal values show that all parts are of the same file. In the answer to a Fetch
// with names, the part of a larger file than [SmallFile] has Size alone.
type Part struct {
	Size int64
	Sum  [32]byte // SHA-256
	Exec bool
	Data []byte
	Err  *filch.Error
}

// PartBytes is the size of a part; the last part of a file may be smaller. The data of an
// answer with several parts has at most this size, too.
const PartBytes = 512 << 10
