// Package metrics serves the counters of one launcher over HTTP, for Prometheus and for
// programs that read the same text.
//
// The answer is OpenMetrics 1.0, or the older text format of Prometheus, as the request's
// Accept header asks. Names begin with filch_; times are seconds, sizes bytes; a counter
// ends in _total. The labels have few values: states, kinds of messages. No label holds a
// job, a user or a path.
//
// On a loopback address the server answers each local user. On another address a request
// must carry the bearer token of the instance ([Server.Token]); without the token nothing is
// answered but 401.
package metrics
