package main

import (
	"os"
	"strings"

	"github.com/filch-hpc/filch/cmd/filch/bringup"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/shims"
)

func main() {
	if code, is := shims.AsShim(os.Args[0], os.Args[1:]); is {
		os.Exit(code)
	}
	os.Exit(Main(os.Args[1:]))
}

// Main is the whole program: Main returns the exit code.
func Main(args []string) int {
	instance, rest := leadingInstance(args)
	if len(rest) > 0 {
		switch rest[0] {
		case "run":
			return runMain(rest[1:], instance)
		case "keeper":
			return keeperMain(rest[1:])
		case "runner":
			return runnerMain(rest[1:])
		case "spawn":
			return runclient.Spawned(rest[1:])
		case "virtual":
			return bringup.VirtualMain(rest[1:])
		case "replay":
			return replayMain(rest[1:])
		case "ssh":
			// Cobra would read --instance as a word of ssh.
			if len(rest) == 1 || rest[1] == "--help" || rest[1] == "-h" {
				return execute(rest)
			}
			return shims.SSH(rest[1:], instance)
		case "batch":
			return shims.Batch(rest[1:])
		case "member":
			return bringup.MemberMain(rest[1:])
		case "--version":
			return execute(append([]string{"version"}, rest[1:]...))
		}
	}
	return execute(args)
}

// leadingInstance takes --instance off the front of the command line, so that
// `filch --instance NAME run ...` is as fast as `filch run ...`. A name without text
// stays, and is refused.
func leadingInstance(args []string) (instance string, rest []string) {
	if len(args) >= 2 && args[0] == "--instance" && args[1] != "" {
		return args[1], args[2:]
	}
	if len(args) >= 1 {
		if name, ok := strings.CutPrefix(args[0], "--instance="); ok && name != "" {
			return name, args[1:]
		}
	}
	return "", args
}
