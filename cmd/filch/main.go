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
	instance, node, rest := leading(args)
	if len(rest) > 0 {
		switch rest[0] {
		case "run":
			if node != "" {
				_ = os.Setenv("FILCH_NODE", node)
			}
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

// leading takes --instance and --node off the front of the command line, so that
// `filch --instance NAME run ...` is as fast as `filch run ...`. A name without text
// stays, and is refused.
func leading(args []string) (instance, node string, rest []string) {
	rest = args
	for len(rest) > 0 {
		name, value, joined := strings.Cut(rest[0], "=")
		after := rest[1:]
		if !joined && len(after) > 0 {
			value, after = after[0], after[1:]
		}
		switch {
		case name == "--instance" && value != "":
			instance = value
		case name == "--node" && value != "":
			node = value
		default:
			return instance, node, rest
		}
		rest = after
	}
	return instance, node, rest
}
