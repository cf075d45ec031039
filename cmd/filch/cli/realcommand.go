package cli

import (
	"os"
	"strings"

	"github.com/filch-hpc/filch"
)

// RealCommand finds a command other than our shims.
func RealCommand(name string) (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		path := dir + "/" + name
		info, err := os.Stat(path)
		if dir == "" || err != nil || info.IsDir() || info.Mode()&0o111 == 0 || os.SameFile(self, info) {
			continue
		}
		return path, nil
	}
	return "", filch.Errorf(filch.NotFound, "there is no %s in PATH except filch's own", name)
}
