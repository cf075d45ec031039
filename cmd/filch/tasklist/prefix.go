package tasklist

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

// prefix learns how many of a job's first tasks have ended, from the job's records.
type prefix struct {
	v    *view
	next int32 // the first task that is not known to have ended
}

// openPrefix opens a job of tasks. The prefix closes the client.
func openPrefix(c *client.Client, id filch.JobID) (*prefix, error) {
	v, _, err := openView(c, id)
	if err != nil {
		return nil, err
	}
	return &prefix{v: v}, nil
}

// Passed returns a number that is larger than the numbers of all first tasks that have
// ended; 0 if the first task has not ended.
func (p *prefix) Passed() (int32, error) {
	v := p.v
	values, err := v.Read([]string{record.KeyJob(v.ID)})
	if err == nil {
		v.Rec, err = record.DecodeJob(values[0])
	}
	if err != nil {
		return 0, err
	}
	for v.num = -1; p.next < v.Rec.Total; { // the zone may have changed
		was := p.next
		list, err := v.rows([]int32{p.next / record.BlockSize}, nil)
		if err != nil {
			return 0, err
		}
		for i := range list {
			if state, _ := stateNamed(list[i].State); list[i].at == p.next && state.Final() {
				p.next++
			}
		}
		if p.next == was || p.next%record.BlockSize != 0 {
			break
		}
	}
	if v.Rec.Finished() {
		p.next = v.Rec.Total // the records of some tasks may have been dropped
	}
	if p.next == 0 {
		return 0, nil
	}
	return v.Spec.Name(p.next-1) + 1, nil
}

// Close closes the client.
func (p *prefix) Close() { p.v.Conn.Close() }
