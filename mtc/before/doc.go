// Package before decides when a job may begin that waits for other jobs, for a time, or
// for its turn among the jobs of its name.
//
// The node that decides about the job makes a [Wait], proposes the lookups of [Wait.Looks]
// to the store, and passes each answer to [Wait.Answered]. [Wait.Verdict] says whether the
// job may begin, or why the job never may. A Wait never asks by itself, and forgets nothing:
// a condition that was met once stays met.
package before
