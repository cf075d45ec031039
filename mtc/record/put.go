package record

import "github.com/filch-hpc/filch"

// Put is a merge that writes a part of a job.
type Put struct {
	Key   string
	Kind  RecordKind
	Delta []byte
}

// LinePuts are the merges that write the payloads of the tasks from base on.
func LinePuts(job filch.JobID, base int32, lines [][]byte) (list []Put) {
	for part, p := range Payloads(base, lines) {
		list = append(list, Put{KeyPayload(job, part), RecordPayload, p.Encode()})
	}
	return list
}

// LongPuts are the merges that write the chunks of long texts.
func LongPuts(job filch.JobID, long [][]byte) (list []Put) {
	for n, chunk := range long {
		list = append(list, Put{KeyLong(job, int32(n)), RecordFact, chunk})
	}
	return list
}
