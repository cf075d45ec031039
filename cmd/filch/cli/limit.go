package cli

import (
	"encoding/json"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// EndOfNode is the time when a launcher's node is taken away; zero: not known.
func EndOfNode(dir place.Dir) time.Time {
	b, err := place.ReadPrivate(dir.NodeFile())
	var n struct {
		Ends int64 `json:"ends"`
	}
	if err != nil || json.Unmarshal(b, &n) != nil || n.Ends == 0 {
		return time.Time{}
	}
	return time.Unix(n.Ends, 0)
}

// FitWalltime refuses a run that cannot finish before the end of the allocation,
// bounds how long a run may wait, and gives a run with a warning signal but
// without a limit the rest of the time.
func FitWalltime(r *spec.Run, dir place.Dir) error {
	p := &r.Request.Policy
	if p.TimeLimit == 0 && p.WarnSig == 0 {
		return nil
	}
	end := EndOfNode(dir)
	if end.IsZero() {
		if p.TimeLimit == 0 {
			return filch.Errorf(filch.Invalid, "--signal needs a time limit").WithHint("add -t MINUTES")
		}
		return nil
	}
	left := time.Until(end)
	if p.TimeLimit == 0 {
		p.TimeLimit = max(left.Truncate(time.Second), time.Second)
		return nil
	}
	if p.TimeLimit > left {
		return filch.Errorf(filch.Busy, "cannot finish: the job asks for %s (-t), and the nodes of %s are taken away in %s", filch.ShortTime(p.TimeLimit),
			dir.Instance, filch.ShortTime(max(left, 0).Round(time.Second))).WithHint("nothing was started; ask for less time, or use a longer allocation")
	}
	if wait := left - p.TimeLimit; r.Request.Patient == 0 || wait < r.Request.Patient {
		r.Request.Patient = max(wait, time.Millisecond)
	}
	return nil
}
