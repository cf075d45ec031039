package main

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"testing"
	"time"
)

// filch api ends when nobody reads its answers any more, although a request goes on.
func TestAPIWithoutAReader(t *testing.T) {
	if err := shared.instance(); err != nil {
		t.Fatal(err)
	}
	cmd := shared.filch("api")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	if _, err := io.WriteString(in, `{"v":1,"id":1,"op":"wait","job":1,"within":1}`+"\n"+`{"v":1,"id":2,"op":"events"}`+"\n"+`{"v":1,"id":3,"op":"hello"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out.Close()
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 141 || !late.Stop() {
		t.Errorf("got %v, want the end by a broken pipe", err)
	}
}
