package record

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestWhenIsMet(t *testing.T) {
	for end := filch.OK; end <= filch.Cancelled; end++ {
		for when, want := range map[When]bool{WhenOK: end == filch.OK, WhenAny: true, WhenNotOK: end != filch.OK, WhenStarted: true} {
			if got := when.Met(end); got != want {
				t.Errorf("%v is met by %v: %v", when, end, got)
			}
		}
		if j := Before(end); !j.Finished() || (j.State() == filch.OK) != (end == filch.OK) {
			t.Errorf("a run that is %v looks like a job that is %v", end, j.State())
		}
	}
	if j := Before(filch.Waiting); j.Finished() || j.State() != filch.Waiting {
		t.Errorf("a run that waits looks like a job that is %v", j.State())
	}
	if j := Before(filch.Running); j.Finished() || j.State() != filch.Running {
		t.Errorf("a run that runs looks like a job that is %v", j.State())
	}
}

func TestRecordKeepsWhen(t *testing.T) {
	for _, when := range [][]When{nil, {WhenAny, WhenNotOK}} {
		j := &Job{Total: 1, Conditions: Conditions{After: []filch.JobID{4, 9}, When: when}, Void: filch.Skipped, Orders: Orders{Serial: 2, Reason: "why"}}
		got, err := DecodeJob(j.Encode())
		if err != nil || !slices.Equal(got.When, when) || got.Void != filch.Skipped || got.Reason != "why" {
			t.Errorf("%+v, %v", got, err)
		}
		if want := append(when, WhenOK, WhenOK)[1]; got.WhenOf(9) != want {
			t.Errorf("job 9 is waited for with %v, want %v", got.WhenOf(9), want)
		}
	}
}

func TestRecordKeepsConditions(t *testing.T) {
	after := []filch.JobID{4, 9}
	for text, c := range map[string]Conditions{
		"":                                   {Begin: 1 << 60},
		"singleton":                          {Alone: true},
		"afterok:4:9":                        {After: after, When: []When{WhenOK, WhenOK}},
		"afterok:4?afterany:9":               {After: after, When: []When{WhenOK, WhenAny}, Any: true},
		"aftercorr:4,afterok:9":              {After: after, When: []When{WhenEach, WhenOK}},
		"after:4+1,afterany:9.5-7,singleton": {After: after, When: []When{WhenStarted, WhenAny}, Parts: []Part{{Delay: time.Minute}, {Tasks: Pick{5, 3}, Name: "9.5-7"}}, Alone: true, Begin: 7},
	} {
		if got := c.String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		j := &Job{Total: 1, Conditions: c, Void: filch.Cancelled}
		got, err := DecodeJob(j.Encode())
		if err != nil || got.Void != filch.Cancelled {
			t.Fatalf("%+v: void %v, %v", c, got.Void, err)
		}
		if got.After = append([]filch.JobID(nil), got.After...); !reflect.DeepEqual(got.Conditions, c) {
			t.Errorf("got %+v, want %+v", got.Conditions, c)
		}
	}
}

func TestConditionsMakeSense(t *testing.T) {
	for name, c := range map[string]Conditions{
		"too-many":     {After: make([]filch.JobID, maxAfter+1)},
		"no-job":       {After: []filch.JobID{0}},
		"no-event":     {After: []filch.JobID{1}, When: []When{whens}},
		"other-events": {After: []filch.JobID{1}, When: []When{WhenOK, WhenOK}},
		"other-parts":  {After: []filch.JobID{1}, Parts: make([]Part, 2)},
		"any-of-none":  {Any: true, Begin: 1},
		"any-alone":    {After: []filch.JobID{1}, Any: true, Alone: true},
		"wide-part":    {After: []filch.JobID{1}, Parts: []Part{{Tasks: Pick{0, MaxPartTasks + 1}}}},
		"early":        {Begin: -1},
		"any-each":     {After: []filch.JobID{1, 2}, When: []When{WhenEach, WhenOK}, Any: true},
		"each-of-part": {After: []filch.JobID{1}, When: []When{WhenEach}, Parts: []Part{{Tasks: Pick{0, 1}}}},
	} {
		if c.Check() == nil {
			t.Errorf("%s: %+v is taken", name, c)
		}
	}
}

// The jobs of a chain know the job before each, however often they ask.
func TestChain(t *testing.T) {
	var chain []byte
	ask := func(id, want filch.JobID) {
		t.Helper()
		v, reply, err := mergeChain(chain, EncodeChainOp(id))
		if err != nil {
			t.Fatal(err)
		}
		chain = v
		if got, err := DecodeChained(reply); got != want || err != nil {
			t.Errorf("before job %d: got %d (%v), want %d", id, got, err, want)
		}
	}
	ask(7, 0)
	ask(3, 7)
	ask(9, 3)
	ask(7, 0)
	ask(3, 7)
	for id := filch.JobID(10); id < 10+maxChain; id++ {
		ask(id, id-1)
	}
	ask(5, 9+maxChain)
	for _, bad := range [][]byte{nil, {0}, {1, 2}} {
		if _, _, err := mergeChain(nil, bad); err == nil {
			t.Errorf("%v is taken as a job of a chain", bad)
		}
	}
}
