// Package stealer decides which nodes to ask for slots, for how many and when
// again, and when the granted slots suffice for a job.
//
// A [Gather] works for one job at the node of the job's submission. A Gather sends
// nothing: the asks come out as a list, the grants go in. A seeded generator of
// each Gather draws victims from [filch.Members].
package stealer
