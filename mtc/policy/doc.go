// Package policy is the choices of many-task computing: the place of a ready task, the
// nodes that a thief asks and its share ([Ranges]), the thief's waits, and the expected
// duration of a task. All choices are pure: a choice follows from its arguments, and a
// node's measurements are in values that the caller keeps ([Throughput], [Durations],
// [Estimates], [Members], [Poll], [Survey], [Backoff]). Records,
// messages and queues belong to package mtc, which calls policy.
package policy
