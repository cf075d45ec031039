package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// raised are the instances that are up, to be taken down when somebody
// interrupts: their launchers are no children of ours.
var raised struct {
	mu    sync.Mutex
	downs map[string]func() // by instance
}

func raise(instance string, down func()) {
	raised.mu.Lock()
	defer raised.mu.Unlock()
	if raised.downs == nil {
		raised.downs = map[string]func(){}
	}
	raised.downs[instance] = down
}

func lower(instance string) {
	raised.mu.Lock()
	defer raised.mu.Unlock()
	delete(raised.downs, instance)
}

// onInterrupt ends everything that is up, then this program.
func onInterrupt(scratch string) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		raised.mu.Lock()
		downs := raised.downs
		raised.downs = nil
		raised.mu.Unlock()
		for _, down := range downs {
			down()
		}
		_ = os.RemoveAll(scratch)
		os.Exit(130)
	}()
}
