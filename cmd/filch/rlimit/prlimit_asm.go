//go:build linux && (amd64 || arm64)

package rlimit

// prlimit is prlimit64(2) of this process, which reads the limit.
//
//go:noescape
func prlimit(resource uintptr, old *[2]uint64) uintptr
