// Package client speaks to the local launcher: the client finds the launcher, submits a
// run and receives its events, and sends queries.
//
// A client is one connection, used by one goroutine for reading; other goroutines may
// call Stdin, Signal, Cancel and Resize meanwhile. After a restart of the launcher, a
// [Run] continues on a new connection, within [RedialWait], and hides the launcher's
// repetitions from its caller.
package client
