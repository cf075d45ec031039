package wire

import "github.com/filch-hpc/filch"

// TaskGrow adds tasks to an open job: one for each line, or Count of them. The
// same Token again adds nothing. With Close nothing can be added afterwards.
type TaskGrow struct {
	Job   filch.JobID
	Token int32
	Count int32
	Lines [][]byte
	Close bool
}

// TaskFollow has a client hear of a job of tasks until it goes.
type TaskFollow struct{ Job filch.JobID }

// Fetch asks a node for a part of a file of a workflow: one that task Writer
// wrote there, or with -1 one of the folder Folder of that node. With Copy it
// asks for a part of the archive of that name, whose sum is to be Sum.
type Fetch struct {
	Job    filch.JobID
	Writer int32
	Path   string
	Folder string
	Offset int64
	Copy   string
	Sum    [32]byte
}

// Part is a part of a file, or why there is none. Size, Sum and Exec are the
// whole file's: they say whether all parts are of the same.
type Part struct {
	Size int64
	Sum  [32]byte // SHA-256
	Exec bool
	Data []byte
	Err  *filch.Error
}

// PartBytes is how much of a file a part holds, if there is so much.
const PartBytes = 512 << 10
