// Package before decides when a job may begin: after other jobs or tasks, at a time, or
// after the jobs of the same name; and when single tasks of a job may begin.
//
// The node that decides about the job makes a [Wait], proposes the lookups of [Wait.Looks]
// to the store, and passes each answer to [Wait.Answered]. [Wait.Verdict] says whether the
// job may begin, or why the job never may. A Wait never asks by itself, and forgets nothing:
// a met condition stays met. An [Each] does the same for the tasks of a bag, one by one.
package before
