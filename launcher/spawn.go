package launcher

import "github.com/filch-hpc/filch"

// SpawnNews is a line that the client of spawned ranks writes to the keeper of the rank
// that called. The fields state facts, in the order of a life.
type SpawnNews struct {
	Job     filch.JobID   `json:"job,omitempty"`
	Waits   string        `json:"waits,omitempty"`   // why the run waits
	Refused *filch.Error  `json:"refused,omitempty"` // the last line: no rank ran
	Started filch.Attempt `json:"started,omitempty"` // all ranks run, in this attempt
	Ended   bool          `json:"ended,omitempty"`   // the last line of a run that started
	Code    int32         `json:"code,omitempty"`    // with Ended
	Cause   string        `json:"cause,omitempty"`   // of a bad end
}

// The descriptors of the client of spawned ranks.
const (
	SpawnRequestFD = 3 // a file with the encoded [Request]
	SpawnNewsFD    = 4 // a pipe for lines of [SpawnNews], in JSON
)

// MaxSpawnNews bounds a line of SpawnNews, in bytes.
const MaxSpawnNews = 64 << 10
