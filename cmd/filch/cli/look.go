package cli

import (
	"os"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// lookWait bounds a look at a file: a file system whose server is gone never answers.
const lookWait = 15 * time.Second

// LookFolder returns nil if the path is a folder.
func LookFolder(path string) error {
	return look(path, func() error {
		st, err := os.Stat(path)
		if err == nil && !st.IsDir() {
			err = syscall.ENOTDIR
		}
		return err
	})
}

// look calls f, which looks at the file or folder of path, and returns the error of f. After SpeakLate look
// prints that the file system does not answer, and at last gives f up, which may then go on to the
// end of the process.
func look(path string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	speak := time.AfterFunc(SpeakLate, func() {
		ui.Say("still waiting: the file system of " + ui.Clean(path) + " does not answer")
	})
	defer speak.Stop()
	end := time.NewTimer(lookWait)
	defer end.Stop()
	select {
	case err := <-done:
		return err
	case <-end.C:
		return filch.Errorf(filch.Timeout, "its file system does not answer for %v", lookWait)
	}
}
