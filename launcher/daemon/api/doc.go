// Package api serves clients that speak JSON lines on the launcher's socket: programs in any
// language that submit jobs, and read how the jobs end. docs/api.md describes the lines.
//
// [Serve] speaks with one client. Each request is done on a goroutine of its own, over
// connections of package client to the launcher itself: the launcher treats a request as the
// frames of any other client, so that this package decides nothing about jobs.
//
// A client can make the launcher keep a bounded number of bytes: the limits are in line.go.
// Nothing is decoded before the length of the line was checked.
package api
