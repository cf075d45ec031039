package daemon

import (
	"testing"
	"testing/synctest"
	"time"
)

// A slow sync counts for a minute, also on a node that writes nothing more.
func TestASlowSyncIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &storeLog{}
		want := func(want time.Duration) {
			t.Helper()
			if got := m.Slowest(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		sync := func(took time.Duration) {
			m.marks = append(m.marks, syncMark{1, time.Now()})
			time.Sleep(took)
			m.onSynced(1)
		}
		want(0)
		sync(3 * time.Second)
		want(3 * time.Second)
		sync(time.Millisecond)
		want(3 * time.Second)
		time.Sleep(lateSyncs - time.Second)
		want(3 * time.Second)
		time.Sleep(2 * time.Second)
		want(0)
		sync(time.Millisecond)
		want(time.Millisecond)
	})
}
