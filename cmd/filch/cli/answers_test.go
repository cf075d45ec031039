package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// A launcher that stops answering is named once, with the time and a remedy, and so is its return;
// a launcher that answers or sends is not asked often.
func TestALauncherThatStopsIsSaid(t *testing.T) {
	said := captureStderr(t)
	lines := func() []string { return strings.Split(strings.TrimSuffix(said(), "\n"), "\n") }
	synctest.Test(t, func(t *testing.T) {
		stopped, asked, lost := false, 0, time.Time{}
		a := &Answers{dir: place.Dir{Instance: "i", Node: "n1"}, job: 7, lost: func() { lost = time.Now() }}
		a.ask = func() error {
			if asked++; stopped {
				time.Sleep(QueryWait)
				return filch.Errorf(filch.Timeout, "late")
			}
			return nil
		}
		a.start()
		for range 100 { // output
			a.Heard()
			time.Sleep(time.Second)
		}
		if asked > 0 {
			t.Errorf("a launcher that sends is asked %d times", asked)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if most := int(time.Hour/askMost) + 3; asked > most || asked < most/2 {
			t.Errorf("a silent launcher is asked %d times in an hour, want %d", asked, most)
		}
		if got := lines(); got[0] != "" {
			t.Errorf("got %q of a launcher that answers", got)
		}
		stopped = true
		at := time.Now()
		time.Sleep(askMost + QueryWait)
		synctest.Wait()
		got := lines()
		if len(got) != 2 || !strings.HasPrefix(got[0], "filch: job 7: the launcher of i on n1 has not answered since ") || !strings.Contains(got[1], "filch doctor says more") {
			t.Fatalf("got %q", got)
		}
		_, since, _ := strings.Cut(got[0], "since ")
		if when, err := time.ParseInLocation(time.DateTime, since, time.Local); err != nil || when.Sub(at) > askMost || at.Sub(when) > time.Second {
			t.Errorf("got the time %q, stopped at %v", since, at)
		}
		stopped = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := lines(); len(got) != 3 || got[2] != "filch: job 7: the launcher of i on n1 answers again" || !lost.IsZero() {
			t.Errorf("got %q", got)
		}
		stopped = true
		at = time.Now()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := lines(); len(got) != 6 || got[5] != "filch: error: job 7: the launcher of i on n1 has not answered for 30s: the job is given up" {
			t.Errorf("got %q", got)
		}
		if after := lost.Sub(at); after < answerMost || after > answerMost+askMost+QueryWait {
			t.Errorf("the run is given up after %v, want %v", after, answerMost)
		}
		a.Stop()
	})
}
