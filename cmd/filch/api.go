package main

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// apiCommand forwards the lines of a program.
func apiCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:     "api",
		GroupID: "jobs",
		Short:   "speak with the launcher in lines of JSON, for programs",
		Long: `Forwards lines of JSON from standard input to the launcher, and the answers to standard
output: for programs that submit jobs and read how they end, here or over ssh.
docs/api.md describes the lines. Ends when all requests are answered after the end of
standard input, or when the launcher ends.`,
		Example: "  echo '{\"v\":1,\"id\":1,\"op\":\"hello\"}' | filch api\n  ssh login.example filch api < requests > answers",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			sock, dir, err := place.Connect(place.Wanted{Instance: g.Instance, Node: g.Node})
			if err != nil {
				return err
			}
			defer sock.Close()
			said := make(chan struct{})
			go forward(sock, said)
			unread := make(chan struct{})
			go func() {
				awaitNoReader(os.Stdout)
				close(unread)
				sock.Close()
			}()
			_, err = io.Copy(os.Stdout, sock)
			select {
			case <-unread:
				err = syscall.EPIPE
			default:
			}
			if errors.Is(err, syscall.EPIPE) {
				return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
			}
			select {
			case <-said:
				return err
			default: // the launcher closed the connection before the end of standard input
				return filch.Errorf(filch.Unavailable, "the launcher of %s on %s closed the connection", dir.Instance, dir.Node)
			}
		},
	}
}

// awaitNoReader waits until no process reads f: a program with nothing to write would never
// notice. For a file that is no pipe, awaitNoReader waits for ever.
func awaitNoReader(f *os.File) {
	p := []unix.PollFd{{Fd: int32(f.Fd())}}
	for p[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0 {
		if _, err := unix.Poll(p, -1); err != nil && err != unix.EINTR || p[0].Revents&unix.POLLNVAL != 0 {
			select {}
		}
	}
}

// forward passes standard input on, with its end. said closes before the launcher hears of the
// end.
func forward(sock net.Conn, said chan<- struct{}) {
	if _, err := io.Copy(sock, os.Stdin); err == nil {
		close(said)
		_ = sock.(*net.UnixConn).CloseWrite()
	}
}
