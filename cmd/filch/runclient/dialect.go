package runclient

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// dialects are the parts of a run that another launcher's name changes; each is
// nil for filch's own way.
type dialects struct {
	Early   func(*Session, launcher.RankEnds)   // prints how ranks ended, while others go on
	Report  func(*Session, launcher.Ended)      // prints how the run ended
	Code    func(launcher.CauseKind, int32) int // the exit code of an end
	Absent  func(error) int                     // goes on where no launcher answers
	Crowded func(*filch.Error) int              // goes on where a run is refused for want of slots
	// The name of the option for the time limit; "" is -t.
	TimeOption string
}

var Dialect dialects
