// Package forecast says when a job starts and ends: filch forecast.
//
// The forecast plays the queue forward: the slots of the nodes, the running jobs, and the
// waiting jobs in the order of their submission. The times of tasks and runs are drawn
// from the times of earlier ones. Many rounds with other draws give the spread; one round
// with all time limits gives the latest time.
package forecast
