package record

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestProposalsRepeatUntilKnown(t *testing.T) {
	k, n := NewProposals(), 0
	p := k.Begin(Proposal{Op: OpMerge, Key: "a"}, func(Answer) { n++ })
	for range 3 {
		if k.Answered(0, p.Tag, Answer{Status: AnswerUnknown}) != nil || k.At() == filch.Never {
			t.Fatal("an unknown outcome ended the proposal")
		}
		again := k.Again(k.At(), nil)
		if len(again) != 1 || again[0].Tag != p.Tag || k.At() != filch.Never {
			t.Fatalf("repeated %v", again)
		}
	}
	k.Answered(time.Second, p.Tag, Answer{Status: AnswerDone})(Answer{})
	if k.Open() != 0 || n != 1 || k.Answered(time.Second, p.Tag, Answer{Status: AnswerDone}) != nil {
		t.Errorf("%d are open after %d answers", k.Open(), n)
	}
}

func TestWatchEndsByUnwatch(t *testing.T) {
	k := NewProposals()
	p := k.Begin(Proposal{Op: OpWatch, Key: "job/1"}, func(Answer) {})
	for range 2 {
		if k.Answered(0, p.Tag, Answer{Status: AnswerDone}) == nil {
			t.Fatal("an answer ended the watch")
		}
	}
	k.Answered(0, p.Tag, Answer{Status: AnswerUnknown})
	if u := k.Unwatch(p.Tag); u.Key != "job/1" || u.Op != OpUnwatch || u.Tag != p.Tag {
		t.Errorf("unwatch is %v", u)
	}
	if again := k.Again(time.Hour, nil); len(again) != 0 || k.Open() != 0 {
		t.Errorf("repeated %v of an ended watch", again)
	}
}
