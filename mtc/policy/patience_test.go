package policy

import (
	"testing"
	"time"
)

func TestPatienceIsBounded(t *testing.T) {
	var p Patience
	for took, want := range map[time.Duration]time.Duration{0: takenWait, time.Millisecond: takenWait, 5 * time.Second: 10 * time.Second, time.Hour: takenWaitMax} {
		if p.Took(took); p.Wait() != want {
			t.Errorf("after %s: got %s, want %s", took, p.Wait(), want)
		}
	}
}
