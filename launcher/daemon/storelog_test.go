package daemon

import (
	"testing"
	"testing/synctest"
	"time"
)

// A slow sync counts for a minute, also on a node that writes nothing more.
func TestASlowSyncIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, fault := &storeLog{}, ""
		want := func(want time.Duration) {
			t.Helper()
			if got, why := m.Slowest(); got != want || why != fault {
				t.Errorf("got %v with the fault %q, want %v with %q", got, why, want, fault)
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
		m.marks, fault = append(m.marks, syncMark{2, time.Now()}), "no space left on device"
		time.Sleep(time.Second)
		m.fault.heard(fault, time.Now())
		time.Sleep(2 * time.Minute)
		m.onSynced(2)
		want(2*time.Minute + time.Second)
		time.Sleep(2 * lateSyncs)
		fault = ""
		sync(time.Second) // the fault was before
		want(time.Second)
	})
}
