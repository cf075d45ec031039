package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Parameters of stealing (MATRIX v2, III.A).
const (
	PollMin = time.Millisecond // first wait after a failure, doubled with each
	PollMax = time.Second      // default bound of the wait; the papers' thieves stop there
	widenAt = 3                // failures in a row after which two more neighbors are asked, each time

	// A thief that has asked enough nodes, and found nothing, looks again after PollRest:
	// an idle instance is silent. A node with new work sends news; the look is for lost
	// messages. Enough is sqrt(N) nodes, and 2N nodes after news of work.
	PollRest = 30 * time.Second
	restAt   = 2

	neighborsMax = 128 // nodes that a thief asks at once
)

// Waits of a thief.
const (
	AskWait   = 20 * time.Millisecond  // for the answers of the nodes that it asked
	StealWait = 100 * time.Millisecond // for an offer, before it asks others
	// UrgeWait is how long tasks stand back while the node asks for tasks of a better class:
	// longer than a question and an offer take.
	UrgeWait = AskWait + StealWait + 100*time.Millisecond
)

// Poll is a thief's spell of tries, and the counts of its steals. The zero Poll has not failed yet.
type Poll struct {
	Steals
	Spell
}

// Told takes in news of work.
func (p *Poll) Told(now time.Duration) {
	if !p.told && p.since != 0 {
		p.since = now // what the thief looked for until now was not there
	}
	p.Spell.Told()
}

// Succeeded takes in a success: more work may be there.
func (p *Poll) Succeeded() {
	p.since = 0
	p.Spell.Succeeded()
}

// Asked notes the number of nodes that the thief asks now.
func (p *Poll) Asked(now time.Duration, nodes int) {
	p.Spell.Asked(nodes)
	p.Tries++
	p.looks(now)
}

// Failed takes in a try without work: see [Spell.Failed].
func (p *Poll) Failed(v Victims, n int, most time.Duration) (wait time.Duration, last bool) {
	wait, last, rests := p.Spell.Failed(v, n, most)
	if rests {
		p.since = 0
	}
	return wait, last
}

// Spell is a thief's tries in a row: the waits between the tries, and the number of nodes that the thief
// asks. The zero Spell has not failed yet.
type Spell struct {
	doubled  int32 // how often the wait was doubled
	failures int32 // in a row
	vain     int32 // nodes asked since the last success, or since news
	told     bool
}

// Told takes in news of work.
func (p *Spell) Told() { p.told, p.vain = true, 0 }

// HasNews reports whether news came since the last look that found nothing.
func (p *Spell) HasNews() bool { return p.told }

// Hurry makes the next wait short again.
func (p *Spell) Hurry() { p.doubled, p.failures = 0, 0 }

// Succeeded takes in a success: more work may be there.
func (p *Spell) Succeeded() { *p = Spell{told: true} }

// Failures are the failures in a row so far.
func (p *Spell) Failures() int { return int(p.failures) }

// Asked notes the number of nodes that the thief asks now.
func (p *Spell) Asked(nodes int) { p.vain += int32(nodes) }

// Width is how many of n other nodes to ask.
func (p *Spell) Width(n int) int {
	k := filch.Root(n + 1)
	if int(p.vain) < p.enough(n) && !mutantNarrow {
		k += 2 * (int(p.failures) / widenAt)
	}
	return min(max(k, 1), n, neighborsMax)
}

// enough is how many of n other nodes a thief asks in vain before a rest.
func (p *Spell) enough(n int) int {
	if p.told {
		return restAt * n
	}
	return filch.Root(n + 1)
}

// Failed takes in a try without work among n other nodes. Failed returns the wait before
// the next try by the choice v of victims; most bounds the doubled wait. The papers' thieves
// stop at the last wait. A thief that asked enough nodes rests.
func (p *Spell) Failed(v Victims, n int, most time.Duration) (wait time.Duration, last, rests bool) {
	p.failures++
	wait = p.wait(most)
	if v.Silent(int(p.failures)) || int(p.vain) >= p.enough(n) && (!p.told || wait == most) {
		if p.told {
			p.told = false
			p.vain = int32(p.enough(n))
		}
		wait, rests = max(wait, PollRest), true
	}
	p.doubled++
	return wait, wait >= PollRest || p.wait(most) == most, rests
}

func (p *Spell) wait(most time.Duration) time.Duration {
	if mutantEager {
		return PollMin
	}
	return min(PollMin<<min(p.doubled, 20), max(most, PollMin))
}
