package record

import (
	"github.com/filch-hpc/filch"
)

// KeyChain names the record of the jobs of one name that begin one after the other.
func KeyChain(name string) string { return "n/" + name }

// maxChain bounds the remembered jobs of a chain. A job that asks again after so many
// later jobs of its name would wait for the youngest of them.
const maxChain = 4096

// link is a job of a chain, and the job before it; 0: none.
type link struct{ job, before filch.JobID }

func (l *link) fields(c *Codec) {
	Index(c, &l.job)
	Index(c, &l.before)
}

// EncodeChainOp proposes a job as the next of a chain. [DecodeChained] reads the answer.
func EncodeChainOp(id filch.JobID) []byte {
	c := Writing(8)
	Index(&c, &id)
	return c.B
}

// DecodeChained reads the answer to a proposed job: the job before it; 0: none.
func DecodeChained(v []byte) (before filch.JobID, err error) {
	c := Reading(v)
	Index(&c, &before)
	return before, c.Done()
}

// mergeChain appends a job to a chain. The same job again has the same job before it.
func mergeChain(old, delta []byte) (value, reply []byte, err error) {
	var list []link
	id, err := DecodeChained(delta)
	if err == nil && id <= 0 {
		err = ErrMalformed
	}
	if err == nil && len(old) > 0 {
		c := Reading(old)
		List(&c, &list, maxChain, 2, (*link).fields)
		err = c.Done()
	}
	if err != nil {
		return old, nil, err
	}
	for _, l := range list {
		if l.job == id {
			return old, EncodeChainOp(l.before), nil
		}
	}
	next := link{job: id}
	if n := len(list); n > 0 {
		next.before = list[n-1].job
	}
	if list = append(list, next); len(list) > maxChain {
		list = list[len(list)-maxChain:]
	}
	c := Writing(4 * len(list))
	List(&c, &list, maxChain, 2, (*link).fields)
	return c.B, EncodeChainOp(next.before), nil
}
