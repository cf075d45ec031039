// Package client speaks to the local launcher: it finds it, submits a run and
// hears of it, and asks questions.
//
// A client is one connection, used by one goroutine for reading; Stdin,
// Signal, Cancel and Resize may be called by others meanwhile. A [Run] takes
// up again on a new connection when the launcher was started anew, within
// [RedialWait], and hides from its caller what the launcher repeats.
package client
