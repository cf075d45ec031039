package pmi_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

const hello1 = "cmd=init pmi_version=1 pmi_subversion=1\n"

// TestMPICH is what Debian's MPICH 4.0.2 says from MPI_Init to MPI_Finalize,
// two ranks on one node, with addresses cut short; C is a rank, S the answer.
func TestMPICH(t *testing.T) {
	const script = `
1C cmd=init pmi_version=1 pmi_subversion=1
1S cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
1C cmd=get_maxes
1S cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024
1C cmd=get_appnum
1S cmd=appnum appnum=1
1C cmd=get_my_kvsname
1S cmd=my_kvsname kvsname=3f2a.7.1
1C cmd=get kvsname=3f2a.7.1 key=PMI_process_mapping
1S cmd=get_result rc=0 msg=success value=(vector,(0,1,2))
1C cmd=barrier_in
0C cmd=init pmi_version=1 pmi_subversion=1
0S cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
0C cmd=barrier_in
0S cmd=barrier_out
1S cmd=barrier_out
1C cmd=barrier_in
0C cmd=put kvsname=3f2a.7.1 key=-bcast-1-0 value=2F6465762F73686D2F6D706963685F736861725F746D704F4B486B4B55
0S cmd=put_result rc=0 msg=success
0C cmd=barrier_in
0S cmd=barrier_out
1S cmd=barrier_out
1C cmd=get kvsname=3f2a.7.1 key=-bcast-1-0
1S cmd=get_result rc=0 msg=success value=2F6465762F73686D2F6D706963685F736861725F746D704F4B486B4B55
0C cmd=put kvsname=3f2a.7.1 key=-allgather-shm-1-0 value=20553E85
0S cmd=put_result rc=0 msg=success
1C cmd=put kvsname=3f2a.7.1 key=-allgather-shm-1-1 value=20553E86
1S cmd=put_result rc=0 msg=success
0C cmd=barrier_in
1C cmd=barrier_in
0S cmd=barrier_out
1S cmd=barrier_out
0C cmd=get kvsname=3f2a.7.1 key=-allgather-shm-1-1
0S cmd=get_result rc=0 msg=success value=20553E86
0C cmd=get_universe_size
0S cmd=universe_size size=2
0C cmd=barrier_in
1C cmd=barrier_in
0S cmd=barrier_out
1S cmd=barrier_out
0C cmd=finalize
0S cmd=finalize_ack
1C cmd=finalize
1S cmd=finalize_ack
`
	c := newCluster(t, each(1, 2), func(cfg *pmi.Config) { cfg.Appnum = []int32{0, 1} })
	play(c, script)
	c.quiet()
}

// play runs a script of lines "RANK C|S TEXT": what a rank says, and what it
// must have been answered by then.
func play(c *cluster, script string) {
	c.t.Helper()
	for l := range strings.Lines(strings.TrimSpace(script)) {
		r := filch.Rank(l[0] - '0')
		if l[1] == 'C' {
			c.say(r, "%s", l[3:])
			continue
		}
		// A rank is answered once per line here.
		c.want(r, strings.TrimRight(l[3:], "\n")+"\n")
	}
}

// TestMalformed is the table of malformed input (PMI-1), a row a test. After
// init unless fresh is set; another rank of the job must not notice.
func TestMalformed(t *testing.T) {
	long := strings.Repeat("x", 2000)
	tests := map[string]struct {
		fresh    bool
		input    string
		answer   string // "" nothing
		breaks   string // "" the job goes on
		aborts   int32
		abortSet bool
	}{
		"init-without-version": {
			fresh: true, input: "cmd=init\n",
			answer: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n", breaks: "init without a version",
		},
		"init-other-version": {
			fresh: true, input: "cmd=init pmi_version=9 pmi_subversion=9\n",
			answer: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n",
		},
		"init-twice":        {input: hello1, breaks: "a second init"},
		"before-init":       {fresh: true, input: "cmd=get_maxes\n", breaks: "get_maxes before init"},
		"barrier-before":    {fresh: true, input: "cmd=barrier_in\n", breaks: "barrier_in before init"},
		"mcmd-before":       {fresh: true, input: "mcmd=spawn\n", breaks: "mcmd before init"},
		"initack":           {fresh: true, input: "cmd=initack pmiid=1\n", breaks: "initack before init"},
		"after-finalize":    {input: "cmd=finalize\ncmd=get_maxes\n", answer: "cmd=finalize_ack\n", breaks: "get_maxes after finalize"},
		"get-without-key":   {input: "cmd=get kvsname=3f2a.7.1\n", answer: "cmd=get_result rc=-1 msg=missing_key value=unknown\n"},
		"get-bare":          {input: "cmd=get\n", answer: "cmd=get_result rc=-1 msg=missing_key value=unknown\n"},
		"get-unknown":       {input: "cmd=get kvsname=3f2a.7.1 key=a\n", answer: "cmd=get_result rc=-1 msg=key_a_not_found value=unknown\n"},
		"get-long-key":      {input: "cmd=get kvsname=3f2a.7.1 key=" + long + "\n", answer: "cmd=get_result rc=-1 msg=key_" + long[:200] + "..._not_found value=unknown\n"},
		"get-other-job":     {input: "cmd=get kvsname=3f2a.8.1 key=a\n", answer: "cmd=get_result rc=-1 msg=wrong_kvsname value=unknown\n"},
		"put-other-job":     {input: "cmd=put kvsname=3f2a.8.1 key=a value=b\n", answer: "cmd=put_result rc=-1 msg=wrong_kvsname\n"},
		"put-without-value": {input: "cmd=put kvsname=3f2a.7.1 key=a\n", answer: "cmd=put_result rc=0 msg=success\n"},
		"put-without-key":   {input: "cmd=put kvsname=3f2a.7.1 value=b\n", answer: "cmd=put_result rc=-1 msg=missing_key\n"},
		"put-long-key":      {input: "cmd=put kvsname=3f2a.7.1 key=" + long + " value=b\n", answer: "cmd=put_result rc=-1 msg=key_too_long\n"},
		"put-long-value":    {input: "cmd=put kvsname=3f2a.7.1 key=a value=" + long + "\n", answer: "cmd=put_result rc=-1 msg=value_too_long\n"},
		"unknown-command":   {input: "cmd=nosuch a=b\n", answer: "cmd=nosuch_result rc=-1 msg=unknown_command\n"},
		"unknown-mcmd":      {input: "mcmd=nosuch\na=b\nendcmd\n", answer: "cmd=nosuch_result rc=-1 msg=unknown_command\n"},
		"garbage":           {input: "garbage\n", breaks: "a line without a command: \"garbage\""},
		"equals":            {input: "=\n", breaks: "a line without a command"},
		"empty-command":     {input: "cmd=\n", breaks: "a line without a command"},
		"empty-lines":       {input: "\n\n\ncmd=get_appnum\n", answer: "cmd=appnum appnum=0\n"},
		"control-bytes":     {input: "cmd=get\x00\xff\xfe\n", breaks: "a line with control bytes: \"cmd=get???\""},
		"high-bytes":        {input: "\xff\xfe\n", breaks: "a line without a command"},
		"bare-word":         {input: "cmd=put kvsname\n", breaks: "a word that is not name=value"},
		"bare-word-inside":  {input: "cmd=put kvsname a=b\n", breaks: "a word that is not name=value"},
		"long-name":         {input: "cmd=put " + long + "=b\n", breaks: "an attribute's name that is empty or too long"},
		"many-attributes":   {input: "cmd=put" + strings.Repeat(" a=b", 65) + "\n", breaks: "too many attributes"},
		"long-line":         {input: strings.Repeat("x", 64<<10), breaks: "bytes without an end of line"},
		"just-short-enough": {input: "cmd=nosuch a=" + strings.Repeat("x", 64<<10-14) + "\n", answer: "cmd=nosuch_result rc=-1 msg=unknown_command\n"},
		"two-barriers":      {input: "cmd=barrier_in\ncmd=barrier_in\n", breaks: "barrier_in while in a barrier"},
		"put-in-barrier":    {input: "cmd=barrier_in\ncmd=put kvsname=3f2a.7.1 key=a value=b\n", breaks: "put while in a barrier"},
		"mcmd-in-barrier":   {input: "cmd=barrier_in\nmcmd=spawn\n", breaks: "mcmd while in a barrier"},
		"group-barrier":     {input: "cmd=barrier_in group=NODE tag=1\n", breaks: "a barrier of a group"},
		"spawn-no-place":    {input: "mcmd=spawn\nnprocs=99999\nendcmd\n", answer: "cmd=spawn_result rc=-1 msg=bad_spawnssofar\n"},
		"spawn-too-many":    {input: spawnBlock("nprocs=9999999\nexecname=a"), answer: "cmd=spawn_result rc=-1 msg=bad_nprocs\n"},
		"spawn-none":        {input: spawnBlock("nprocs=0\nexecname=a"), answer: "cmd=spawn_result rc=-1 msg=bad_nprocs\n"},
		"spawn-nothing":     {input: spawnBlock("nprocs=1"), answer: "cmd=spawn_result rc=-1 msg=bad_execname\n"},
		"spawn-no-args":     {input: spawnBlock("nprocs=1\nexecname=a\nargcnt=2\narg1=x"), answer: "cmd=spawn_result rc=-1 msg=bad_argcnt\n"},
		"spawn-no-preput":   {input: spawnBlock("nprocs=1\nexecname=a\npreput_num=1"), answer: "cmd=spawn_result rc=-1 msg=bad_preput\n"},
		"spawn-long-preput": {input: spawnBlock("nprocs=1\nexecname=a\npreput_num=1\npreput_key_0=k\npreput_val_0=" + strings.Repeat("v", 1025)), answer: "cmd=spawn_result rc=-1 msg=preput_too_long\n"},
		"spawn-no-info":     {input: spawnBlock("nprocs=1\nexecname=a\ninfo_num=-1"), answer: "cmd=spawn_result rc=-1 msg=bad_info\n"},
		"spawn-twice":       {input: spawnBlock("nprocs=1\nexecname=a") + "cmd=get_appnum\n", breaks: "get_appnum before the answer to the last command"},
		"spawn-lines":       {input: "mcmd=spawn\n" + strings.Repeat("\n", 70_000), breaks: "an mcmd of more than 65536 lines"},
		"spawn-line":        {input: "cmd=spawn nprocs=2\n", answer: "cmd=spawn_result rc=-1 msg=spawn_is_an_mcmd\n"},
		"spawn-huge":        {input: "mcmd=spawn\n" + strings.Repeat("arg1="+strings.Repeat("y", 60<<10)+"\n", 18), breaks: "an mcmd of more than 1048576 bytes"},
		"abort":             {input: "cmd=abort exitcode=42\ncmd=get_maxes\n", aborts: 42, abortSet: true},
		"abort-zero":        {input: "cmd=abort exitcode=0\n", aborts: 0, abortSet: true},
		"abort-text":        {input: "cmd=abort exitcode=abc\n", aborts: 1, abortSet: true},
		"abort-bare":        {input: "cmd=abort\n", aborts: 1, abortSet: true},
		"abort-large":       {input: "cmd=abort exitcode=600\n", aborts: 88, abortSet: true},
		"abort-256":         {input: "cmd=abort exitcode=256\n", aborts: 1, abortSet: true},
		"abort-negative":    {input: "cmd=abort exitcode=-1\n", aborts: 255, abortSet: true},
		"abort-before-init": {fresh: true, input: "cmd=abort exitcode=3\n", aborts: 3, abortSet: true},
		"abort-in-barrier":  {input: "cmd=barrier_in\ncmd=abort exitcode=3\n", aborts: 3, abortSet: true},
		"lookup-bare":       {input: "cmd=lookup_name\n", answer: "cmd=lookup_result info=ok rc=1 msg=missing_service\n"},
		"publish-long-port": {input: "cmd=publish_name service=s port=" + long + "\n", answer: "cmd=publish_result info=ok rc=1 msg=too_long\n"},
		"value-with-spaces": {input: "cmd=put kvsname=3f2a.7.1 key=a value=b c=d -\ncmd=get kvsname=3f2a.7.1 key=a\n", answer: "cmd=put_result rc=0 msg=success\ncmd=get_result rc=0 msg=success value=b c=d -\n"},
		"double-spaces":     {input: "cmd=get  kvsname=3f2a.7.1   key=a\n", answer: "cmd=get_result rc=-1 msg=key_a_not_found value=unknown\n"},
		"put-again":         {input: "cmd=put kvsname=3f2a.7.1 key=a value=b\ncmd=put kvsname=3f2a.7.1 key=a value=c\ncmd=get kvsname=3f2a.7.1 key=a\n", answer: "cmd=put_result rc=0 msg=success\ncmd=put_result rc=0 msg=success\ncmd=get_result rc=0 msg=success value=c\n"},
		"dead-processes":    {input: "cmd=get kvsname=3f2a.7.1 key=PMI_dead_processes\n", answer: "cmd=get_result rc=-1 msg=key_PMI_dead_processes_not_found value=unknown\n"},
	}
	for name, tt := range tests {
		for _, step := range []int{len(tt.input), 7, 1} {
			t.Run(fmt.Sprintf("%s/bytes=%d", name, step), func(t *testing.T) {
				c := newCluster(t, each(2, 2))
				c.start(1, 2, 3)
				if !tt.fresh {
					c.start(0)
				}
				// Byte by byte is quadratic in the tests' own buffers.
				if step == 1 && len(tt.input) > 10_000 {
					step = 999
				}
				for i := 0; i < len(tt.input); i += step {
					c.say(0, "%s", tt.input[i:min(i+step, len(tt.input))])
				}
				c.want(0, tt.answer)
				checkBreak(c, tt.breaks)
				switch {
				case !tt.abortSet && len(c.aborts) > 0:
					t.Errorf("aborts %v, want none", c.aborts)
				case tt.abortSet && (len(c.aborts) != 1 || c.aborts[0] != pmi.Abort{Rank: 0, Code: tt.aborts}):
					t.Errorf("aborts %v, want one of rank 0 with %d", c.aborts, tt.aborts)
				}
				for r := filch.Rank(1); r < 4; r++ {
					c.say(r, "cmd=get_appnum\n")
					c.want(r, "cmd=appnum appnum=0\n")
				}
				c.say(0, "anything\n")
				if len(c.breaks)+len(c.aborts) > 1 {
					t.Errorf("breaks %v and aborts %v, want one verdict", c.breaks, c.aborts)
				}
			})
		}
	}
}

// checkBreak wants one break of rank 0 that says text, or none for "".
func checkBreak(c *cluster, text string) {
	c.t.Helper()
	switch {
	case text == "" && len(c.breaks) > 0:
		c.t.Errorf("breaks %v, want none", c.breaks)
	case text != "" && (len(c.breaks) != 1 || c.breaks[0].Rank != 0):
		c.t.Errorf("breaks %v, want one of rank 0", c.breaks)
	case text != "" && !strings.Contains(c.breaks[0].Text, text):
		c.t.Errorf("said %q, want it to contain %q", c.breaks[0].Text, text)
	}
}

// spawnBlock is a spawn of one program.
func spawnBlock(lines string) string {
	return "mcmd=spawn\n" + lines + "\ntotspawns=1\nspawnssofar=1\nendcmd\n"
}

// TestSpawnOfSeveralPrograms passes one spawn on after the last block, and the rank has one
// answer when the result comes.
func TestSpawnOfSeveralPrograms(t *testing.T) {
	c := newCluster(t, each(1, 1))
	c.start(0)
	block := "mcmd=spawn\nnprocs=%[1]d\nexecname=./a\ntotspawns=3\nspawnssofar=%[1]d\narg1=x=y z\nargcnt=1\n" +
		"preput_num=1\npreput_key_0=PORT\npreput_val_0=tag#0$\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/a b\nendcmd\n"
	c.say(0, block, 1)
	c.say(0, block, 2)
	if len(c.spawns) > 0 {
		t.Errorf("a spawn after 2 of 3 blocks: %+v", c.spawns)
	}
	c.say(0, block, 3)
	c.want(0, "")
	want := pmi.Spawn{ID: 1, Preput: []pmi.Pair{{Key: "PORT", Value: "tag#0$"}}}
	for n := range int32(3) {
		want.Apps = append(want.Apps, pmi.SpawnApp{Argv: []string{"./a", "x=y z"}, Ranks: n + 1, Info: []pmi.Pair{{Key: "wdir", Value: "/a b"}}})
	}
	if len(c.spawns) != 1 || !reflect.DeepEqual(c.spawns[0], want) {
		t.Errorf("got %+v\nwant %+v", c.spawns, want)
	}
	c.spawned(0, 1, pmi.SpawnResult{Refused: "no room for 6 ranks"})
	c.want(0, "cmd=spawn_result rc=-1 msg=no_room_for_6_ranks\n")
	c.say(0, "cmd=get_appnum\n")
	c.want(0, "cmd=appnum appnum=0\n")
	c.say(0, "%s", spawnBlock("nprocs=1\nexecname=a"))
	c.spawned(0, 2, pmi.SpawnResult{Namespace: "x", Ranks: 1})
	c.spawned(0, 2, pmi.SpawnResult{Namespace: "x", Ranks: 1})
	c.want(0, "cmd=spawn_result rc=0\n")
	c.quiet()
}

// TestPreput has a spawned rank find the pairs of its parent.
func TestPreput(t *testing.T) {
	c := newCluster(t, each(1, 1), func(cfg *pmi.Config) {
		cfg.Preput = []pmi.Pair{{Key: "PARENT_ROOT_PORT_NAME", Value: "tag#0$"}}
	})
	c.start(0)
	c.say(0, "cmd=get kvsname=%s key=PARENT_ROOT_PORT_NAME\n", kvsname)
	c.want(0, "cmd=get_result rc=0 msg=success value=tag#0$\n")
	c.quiet()
}

func TestAbortMessage(t *testing.T) {
	c := newCluster(t, each(1, 1))
	c.start(0)
	c.say(0, "cmd=abort exitcode=5 message=no more room\x09in box 7\n")
	if len(c.aborts) != 1 || c.aborts[0].Text != "no more room?in box 7" {
		t.Errorf("aborts %+v, want the message", c.aborts)
	}
	if got := c.engines[0].State(0); got != pmi.Aborted {
		t.Errorf("state %v, want aborted", got)
	}
}

// TestNames has a service published on one node and looked up on others.
func TestNames(t *testing.T) {
	for name, where := range map[string][]int32{"one-node": each(1, 3), "three-nodes": each(3, 1), "far": append([]int32{0, 20, 299}, each(300, 1)...)} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, where)
			c.start(0, 1, 2)
			script := `
1C cmd=lookup_name service=ocean
1S cmd=lookup_result info=ok rc=1 msg=service_not_found
2C cmd=publish_name service=ocean port=tag#0$description#n3$
2S cmd=publish_result info=ok rc=0 msg=success
1C cmd=publish_name service=ocean port=other
1S cmd=publish_result info=ok rc=1 msg=key_already_present
1C cmd=lookup_name service=ocean
1S cmd=lookup_result port=tag#0$description#n3$ info=ok rc=0 msg=success
0C cmd=unpublish_name service=ocean
0S cmd=unpublish_result info=ok rc=0 msg=success
2C cmd=unpublish_name service=ocean
2S cmd=unpublish_result info=ok rc=1 msg=service_not_found
`
			play(c, script)
			c.quiet()
		})
	}
}

func TestNameBeforeAnswer(t *testing.T) {
	c := newCluster(t, each(2, 1))
	c.start(1)
	var out pmi.Out
	c.engines[1].Feed(0, 1, []byte("cmd=lookup_name service=a\ncmd=get_maxes\n"), &out)
	if len(out.Breaks) != 1 || !strings.Contains(out.Breaks[0].Text, "before the answer") {
		t.Errorf("breaks %v, want one for a command before the answer", out.Breaks)
	}
}

func TestManyNames(t *testing.T) {
	c := newCluster(t, each(1, 1))
	c.start(0)
	for i := range 5000 {
		c.say(0, "cmd=publish_name service=s%d port=p\n", i)
	}
	got := c.answer(0)
	if n := strings.Count(got, "rc=0"); n != 4096 {
		t.Errorf("%d services were published, want 4096", n)
	}
}

// TestMemory has a rank try to make the engine hold more than its limits.
func TestMemory(t *testing.T) {
	t.Run("key-values", func(t *testing.T) {
		c := newCluster(t, each(1, 1))
		c.start(0)
		value := strings.Repeat("v", 1024)
		ok := 0
		for i := range 70_000 {
			c.say(0, "cmd=put kvsname=%s key=%05d value=%s\n", kvsname, i, value)
			if got := c.answer(0); strings.Contains(got, "rc=0") {
				ok++
			} else if got != "cmd=put_result rc=-1 msg=kvs_full\n" {
				t.Fatalf("put %d was answered %q", i, got)
			}
		}
		if bytes := ok * 1033; bytes > 64<<20 || bytes < 63<<20 {
			t.Errorf("%d bytes were taken, want just under 64 MiB", bytes)
		}
		c.say(0, "cmd=barrier_in\n")
		c.want(0, "cmd=barrier_out\n")
		c.say(0, "cmd=put kvsname=%s key=one-more value=%s\n", kvsname, value)
		c.want(0, "cmd=put_result rc=-1 msg=kvs_full\n")
	})
	t.Run("all-nodes-together", func(t *testing.T) {
		c := newCluster(t, each(3, 1))
		c.start(0, 1, 2)
		value := strings.Repeat("v", 1024)
		for _, r := range c.all() {
			for i := range 30_000 {
				c.say(r, "cmd=put kvsname=%s key=%d-%d value=%s\n", kvsname, r, i, value)
			}
			c.answer(r)
			c.say(r, "cmd=barrier_in\n")
		}
		c.run(time.Minute)
		if len(c.breaks) == 0 || !strings.Contains(c.breaks[0].Text, "more than 64 MiB") {
			t.Errorf("breaks %v, want one for 64 MiB", c.breaks)
		}
	})
	t.Run("answers-of-one-feed", func(t *testing.T) {
		c := newCluster(t, each(1, 1))
		c.start(0)
		c.say(0, "cmd=put kvsname=%s key=a value=%s\n", kvsname, strings.Repeat("v", 1024))
		c.answer(0)
		get := "cmd=get kvsname=" + kvsname + " key=a\n"
		var out pmi.Out
		c.engines[0].Feed(0, 0, []byte(strings.Repeat(get, pmi.FeedBytes/len(get))), &out)
		if n := len(out.Writes[0].Data); n > 4<<20 {
			t.Errorf("%d bytes of answers to one feed, want at most 4 MiB", n)
		}
	})
}

func TestUnknownRankAndNode(t *testing.T) {
	c := newCluster(t, each(2, 1))
	var out pmi.Out
	c.engines[0].Feed(0, 9, []byte(hello1), &out)
	c.engines[0].Closed(0, 9, &out)
	if len(out.Writes) > 0 || len(out.Breaks) > 0 {
		t.Errorf("answers %v to a rank that is not here", out)
	}
	c.engines[0].Peer(0, 7, []byte{1, 2}, &out)
	c.engines[0].Peer(0, 1, []byte{1, 2}, &out)
	c.engines[0].Peer(0, 1, make([]byte, 20), &out)
	if len(out.Notes) != 3 {
		t.Errorf("notes %q, want one for each bad frame", out.Notes)
	}
	if got := c.engines[0].State(9); got != pmi.Fresh {
		t.Errorf("a rank that is not here is %v", got)
	}
}

// The ranks of a node are wired once a fence of all ranks is over.
func TestWired(t *testing.T) {
	c := newCluster(t, each(2, 1))
	c.start(0, 1)
	c.say(0, "cmd=barrier_in\n")
	for n, e := range c.engines {
		if e.Wired() {
			t.Errorf("node %d is wired before rank 1 has come", n)
		}
	}
	c.say(1, "cmd=barrier_in\n")
	for n, e := range c.engines {
		if !e.Wired() {
			t.Errorf("node %d is not wired after the fence", n)
		}
	}
}

func TestSpoke(t *testing.T) {
	c := newCluster(t, each(1, 2))
	if c.engines[0].Spoke() {
		t.Error("spoke before anybody did")
	}
	c.start(1)
	if !c.engines[0].Spoke() {
		t.Error("did not speak after init")
	}
}
