package pmi

import (
	"strconv"
	"strings"
	"time"
)

// Limits on the memory that a rank, or a peer, may make us hold. MPICH sends lines of at
// most 1,024 bytes; Open MPI's PMI-1 path a little more than the value length.
const (
	FeedBytes = 64 << 10 // the most that a keeper should feed per call

	maxLine       = 64 << 10  // a line of PMI-1, a message of PMI-2
	maxBlock      = 1 << 20   // an mcmd, from its first line to endcmd
	maxBlockLines = 64 << 10  // of an mcmd
	maxWord       = 31        // an attribute's name on the wire
	maxAttrs      = 64        // attributes of a line
	maxKey        = 64        // keylen_max
	maxValue      = 1024      // vallen_max: even, or MPICH 4.0.2 fails an assertion
	maxKvsname    = 256       // kvsname_max, with the NUL
	maxKVS        = 64 << 20  // keys and values of a job, in bytes
	maxKeys       = 1_000_000 // of a job
	maxNames      = 4096      // published services of a job
	maxAttrKeys   = 4096      // node attributes (PMI-2)
	maxDue        = 64        // open questions of a rank (PMI-2, threaded)
	maxMapping    = 673       // bytes of a process mapping that MPICH's client can take
	maxText       = 200       // bytes of a rank's message quoted in a line of ours
	maxChunk      = 60 << 10  // key-value bytes of a frame between keepers
	maxWindow     = 16        // unacknowledged frames on the way to a neighbor
	maxUnacked    = 8         // frames taken before an acknowledgment goes at once
)

// Times of the tree.
const (
	// goneGrace is the time from the departure of a rank to the report that others wait
	// for the rank in vain. Meanwhile the keeper of the departed rank reports the true
	// cause, an exit code or a signal, and the first report counts.
	goneGrace = 300 * time.Millisecond
	// askAfter is how long a fence stays open before silent children are asked whether
	// their ranks will ever enter.
	askAfter = 500 * time.Millisecond

	resendFirst = time.Second
	resendMost  = 8 * time.Second
	ackAfter    = 100 * time.Millisecond
)

// abortCode is the job's code for an MPI_Abort: 0 stays 0, text without a number gives 1,
// and a larger number gives its low byte, as with exit, but never 0.
func abortCode(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1
	}
	if n == 0 {
		return 0
	}
	if n &= 255; n == 0 {
		return 1
	}
	return int32(n)
}

// clip shortens a rank's message to a line of ours and replaces control characters.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, s)
}
