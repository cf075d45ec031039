package tokens

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Caps keeps the number of running tasks of capped jobs, and the use of resources that
// the nodes share (licenses), in the whole instance, within their limits. A node asks the
// store for tokens and starts a task for the tokens that the task takes.
type Caps struct {
	node     Node
	licenses []*Set // in the order of first use
}

// New makes the Caps of a node, without any.
func New(n Node) Caps { return Caps{node: n} }

// Of are the tokens that the tasks of j run under: the job's own, or those of the license.
func (k *Caps) Of(j Job) *Set {
	if s := j.Spec(); s.License.Name == "" {
		return &Set{key: record.KeyCap(j.ID()), job: j, Tokens: policy.Tokens{Limit: s.Cap}}
	}
	return k.license(j.Spec().License.Name)
}

func (k *Caps) license(name string) *Set {
	for _, t := range k.licenses {
		if t.license == name {
			return t
		}
	}
	t := &Set{license: name, key: record.KeyLicense(name)}
	k.licenses = append(k.licenses, t)
	return t
}

// More reports whether another task of a capped job, which takes a number of tokens, may run
// here. A node asks for tokens as needed, in a single operation with the total number wanted.
func (k *Caps) More(j Job, each int32) bool {
	t := j.Tokens()
	switch {
	case each == 0:
		return true
	case t.Waiting() > 0:
		return false // a run is first
	case t.Over > 0:
		return false // tokens have to go back first
	case each <= t.Idle():
		return true
	case t.Limit > 0 && t.Held >= t.Limit:
		return false // the next end of a task frees a token
	}
	tasks := int64(alike(j))
	if j.Spec().License.Name == "" || len(j.Spec().Needs) == 0 {
		tasks = j.Queue().Shareable() + int64(len(j.Queue().Dedicated))
	}
	tasks = min(tasks, int64(j.Slots()), maxTokens/int64(each))
	k.ask(t, t.Used+max(int32(tasks), 1)*each, each)
	return false
}

// Reserve asks for n tokens of a license for a run. [Node.Reserved] hears once the run has them.
// Runs get tokens in the order of asking, and before the tasks of this node.
func (k *Caps) Reserve(run filch.JobID, license string, n int32) {
	k.license(license).Reserve(run, n)
}

// Unreserve gives back the tokens of a run, or ends the run's wait for tokens.
func (k *Caps) Unreserve(run filch.JobID, license string) {
	t := k.license(license)
	t.Unreserve(run)
	t.Back = k.node.Now() + tokenLinger
	k.node.Wake(t.Back)
}

// Grant grants tokens to the runs that wait, or asks for more.
func (k *Caps) Grant() {
	for _, t := range k.licenses {
		for run, ok := t.Grant(); ok; run, ok = t.Grant() {
			k.node.Reserved(run)
		}
		if n := t.Waiting(); n > 0 {
			k.ask(t, t.Used+n, n)
		}
	}
}

// ask asks for tokens, unless the node waits after an answer without tokens.
func (k *Caps) ask(t *Set, want, each int32) {
	switch {
	case t.asking:
	case k.node.Now() < t.At:
		k.node.Wake(t.At)
	default:
		k.hold(t, want, each)
	}
}

// maxTokens bounds what a node asks at once.
const maxTokens = 1 << 20

// hold sets the total number of tokens that this node wants. From the moment of the
// request, the node no longer holds the tokens that it gives back. More tokens come in
// multiples of each.
func (k *Caps) hold(t *Set, want, each int32) {
	if t.Limit > 0 {
		want = min(want, t.Limit)
	}
	t.asking = true
	// The record remembers the last request of this incarnation, also if the node forgot
	// the job meanwhile, and is ahead of that if others called the node dead.
	t.seq = max(uint32(k.node.Next()), t.seq+1)
	t.Held = min(t.Held, want)
	op := record.CapOp{Limit: t.Limit, Owner: k.node.Self(), Seq: t.seq, Want: want, Step: each}
	k.node.Merge(t.key, record.RecordCap, op.Encode(), func(a record.Answer) {
		t.asking, t.Looked = false, k.node.Now()
		r, err := record.DecodeCap(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			return
		}
		if h := r.Holder(k.node.Self()); h != nil {
			t.seq = max(t.seq, h.Seq)
		}
		spare := t.Spare
		t.Answered(k.node.Now(), r, k.node.Self())
		// Beside free slots, tokens that stay free wake nobody twice.
		if t.Spare > 0 && (t.Spare > spare || k.node.Full()) {
			k.node.Tell()
		}
		if t.job == nil {
			k.node.Wake(k.node.Now() + policy.TokenWaitMax)
		}
		if j := t.job; j != nil && j.Queue().Empty() && (j.Running() == 0 || t.Held > j.Running()) {
			k.Linger(j)
			j.Forget()
		}
	})
}

// Linger keeps unneeded tokens for tokenLinger, in which the node may steal tasks
// to use the tokens.
func (k *Caps) Linger(j Job) {
	if t := j.Tokens(); t != nil && t.Held > 0 {
		t.Back = k.node.Now() + tokenLinger
		k.node.Wake(t.Back)
	}
}

// AllLate reports whether none of a job's queued tasks can finish here.
func (k *Caps) AllLate(j Job) bool {
	return j.Spec() != nil && len(j.Queue().Cooling) == 0 && !(waits(j) && j.MayStart())
}

// Late gives tokens back that came too late for the tasks here.
func (k *Caps) Late(j Job) {
	if t := j.Tokens(); t != nil && t.Held > t.Used && t.Back <= k.node.Now() && k.AllLate(j) {
		k.Linger(j)
	}
}

const tokenLinger = 20 * time.Millisecond

// TickJob gives back the tokens that a capped job has not needed for a while, or cannot
// use.
func (k *Caps) TickJob(j Job) {
	switch t := j.Tokens(); {
	case !t.own() || t.Held == 0 || j.Over():
	case j.Queue().Empty() || k.AllLate(j):
		k.spare(t)
	case !waits(j) && len(j.Queue().Cooling) > 0 && t.Held > t.Used && !t.asking:
		k.hold(t, t.Used, 1) // for the nodes to which this node leaves the tasks that failed here
	case k.kept(j) && t.Held > t.Used && !t.asking && t.Looked+policy.TokenWaitMax <= k.node.Now():
		k.hold(t, t.Used, 1)
	}
}

// kept reports whether a job has tasks here that cannot start beside the tasks that run:
// no slot is free, or the tasks are stuck.
func (k *Caps) kept(j Job) bool {
	return (k.node.Full() || j.Sticks()) && j.Queue().Startable() && !j.Barred()
}

// Watch plans a look at the tokens of tasks that cannot start here: other nodes may have
// use for the tokens that this node has idle, and for the tasks where tokens are free.
func (k *Caps) Watch() {
	for j := range k.node.Order() {
		t := j.Tokens()
		if !j.Spec().Capped() || t.asking || !k.kept(j) {
			continue
		}
		if t.job == nil && k.looks(t) || t.job != nil && t.Held > t.Used {
			k.node.Wake(max(t.Looked+policy.TokenWaitMax, k.node.Now()))
		}
	}
}

// TickLicenses gives back the tokens of licenses that this node has not needed for a while, and
// asks for the state of licenses that queued tasks wait for.
func (k *Caps) TickLicenses() {
	for _, t := range k.licenses {
		want, looks := t.Held, k.looks(t)
		if !k.usable(t) {
			want = t.Used
		}
		switch {
		case t.asking:
		case t.Owes():
			k.hold(t, t.Used, 1)
		case t.Held > t.Used && !k.wanted(t, t.Idle()):
			k.spare(t)
		case looks && t.Looked+policy.TokenWaitMax <= k.node.Now():
			k.hold(t, want, 1)
		case looks:
			k.node.Wake(t.Looked + policy.TokenWaitMax)
		}
	}
}

// looks reports whether the node looks at a license's record again and again: a person may
// lower the limit of tokens in use, and where the tasks cannot start, thieves may find free
// tokens, and the node gives back the tokens that it cannot use.
func (k *Caps) looks(t *Set) bool {
	return t.Used > 0 || t.Over > 0 || !k.usable(t) && k.wanted(t, maxTokens)
}

// wanted reports whether a queued task here could use n tokens of a license, or the run that
// waits first.
func (k *Caps) wanted(t *Set, n int32) bool {
	if run := t.Waiting(); run > 0 {
		return run <= n
	}
	for j := range k.node.Order() {
		takes := j.Wants()
		if j.Tokens() == t && takes > 0 && takes <= n && waits(j) && !j.Barred() {
			return true
		}
	}
	return false
}

// usable reports whether the next tokens of a license could be used here: a run waits for
// them, or a task that could start.
func (k *Caps) usable(t *Set) bool {
	if t.Waiting() > 0 {
		return true
	}
	for j := range k.node.Order() {
		if j.Tokens() == t && waits(j) && !j.Barred() && !k.kept(j) {
			return true
		}
	}
	return false
}

// waits reports whether tasks of a job wait here that could start, or could with tokens.
func waits(j Job) bool { return j.Queue().Startable() || len(j.Queue().Lacking) > 0 }

// spare gives back tokens that this node has not needed for a while: tasks that
// cannot finish here need none, and nodes that could run the tasks do.
func (k *Caps) spare(t *Set) {
	if t.Held <= t.Used || t.asking {
		return
	}
	if t.Back > k.node.Now() {
		k.node.Wake(t.Back)
		return
	}
	k.hold(t, t.Used, 1)
}

// Words lists the capped jobs of this node, and the licenses that this node looked at a
// moment ago, each with its idle tokens. Free tokens count too, unless tasks or a run wait
// for them here: two nodes without tokens would pass tasks to and fro.
func (k *Caps) Words() (list []message.CapWord) {
	for _, t := range k.licenses {
		if !t.Asked() || t.Looked+policy.TokenWaitMax <= k.node.Now() || len(list) >= message.CapWordsMax {
			continue
		}
		w := message.CapWord{License: t.license, Idle: t.Idle()}
		if !k.wanted(t, maxTokens) {
			w.Idle += max(t.Spare, 0)
		}
		list = append(list, w)
	}
	for _, j := range k.sorted() {
		t := j.Tokens()
		w, fresh := message.CapWord{Job: j.ID(), Idle: max(t.Held-j.Running(), 0)}, t.Looked+policy.TokenWaitMax > k.node.Now()
		switch {
		case len(list) >= message.CapWordsMax, w.Idle == 0 && !fresh && !j.Queue().Startable():
			continue // the victim may know better
		case fresh && !j.Queue().Startable():
			w.Idle += max(t.Spare, 0)
		}
		list = append(list, w)
	}
	return list
}

// sorted are the capped jobs for which this node ever asked tokens.
func (k *Caps) sorted() (list []Job) {
	for j := range k.node.Jobs() {
		if t := j.Tokens(); t.own() && t.Asked() && !j.Over() {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b Job) int { return cmp.Compare(a.ID(), b.ID()) })
	return list
}

// License describes a resource that the nodes share, as this node saw the resource last:
// tokens that this node's tasks use, and free tokens; false if the node never asked.
func (k *Caps) License(name string) (used, free int32, ok bool) {
	for _, t := range k.licenses {
		if t.license == name && t.Asked() {
			return t.Used, t.Spare, true
		}
	}
	return 0, 0, false
}

// Due reports whether a task of j that waits apart has its tokens here.
func (k *Caps) Due(j Job) bool {
	return len(j.Queue().Lacking) > 0 && j.Wants() <= j.Tokens().Idle()
}

// alike counts the first of the tasks that wait apart which take the same number of tokens:
// the node asks for their tokens at once.
func alike(j Job) (n int32) {
	list := j.Queue().Lacking
	for i := range list {
		if j.Spec().Tokens(int(list[i].Need)-1) != j.Wants() {
			break
		}
		n++
	}
	return n
}

// Check panics where the tokens in use differ from the tokens of the running tasks by license,
// together with the tokens of runs.
func (k *Caps) Check(running map[*Set]int32) {
	for _, t := range k.licenses {
		running[t] += t.Reserved()
	}
	for t, n := range running { // any order: a panic whichever is first
		if t.Used != n || n > t.Held && !t.Revoked {
			panic(fmt.Sprintf("mtc: tasks use %d tokens of %s, %d are counted and %d held", n, t.key, t.Used, t.Held))
		}
	}
}
