package cli

import (
	"time"
)

// Bounds of the waits for a launcher.
const (
	AnswerWait = 10 * time.Second       // from start to first answer
	JoinedWait = 25 * time.Second       // with a join before the answer, tried for 20 s
	SpeakLate  = 5 * time.Second        // before a wait prints its reason
	QueryWait  = 5 * time.Second        // for an answer of a running launcher
	AliveWait  = 2 * time.Second        // for an answer that shows life
	PollPause  = 5 * time.Millisecond   // between looks
	SpeakAfter = 500 * time.Millisecond // before the progress line shows
)
