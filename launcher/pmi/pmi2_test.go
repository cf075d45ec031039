package pmi_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// frame2 puts the length before a message, as Slurm's client does.
func frame2(body string) string { return fmt.Sprintf("%-6d%s", len(body), body) }

// start2 takes ranks through init and fullinit.
func start2(c *cluster, ranks ...filch.Rank) {
	c.t.Helper()
	for _, r := range ranks {
		c.say(r, "cmd=init pmi_version=2 pmi_subversion=0\n")
		c.want(r, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
		c.say(r, "%s", frame2(fmt.Sprintf("cmd=fullinit;pmirank=%d;threaded=FALSE;", r)))
		c.want2(r, fmt.Sprintf("cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;", r, len(c.where)))
	}
}

// want2 checks one answer, without its length.
func (c *cluster) want2(r filch.Rank, want string) {
	c.t.Helper()
	if want == "" {
		c.want(r, "")
		return
	}
	c.want(r, fmt.Sprintf("%6d%s", len(want), want))
}

// TestSlurmClient is what a program of Slurm's libpmi2 says, two ranks on one
// node; see TestMPICH.
func TestSlurmClient(t *testing.T) {
	const script = `
1C cmd=job-getid;
1S cmd=job-getid-response;jobid=3f2a.7.1;rc=0;
1C cmd=info-getjobattr;key=PMI_process_mapping;
1S cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;
1C cmd=info-getjobattr;key=universeSize;
1S cmd=info-getjobattr-response;found=TRUE;value=2;rc=0;
1C cmd=info-getjobattr;key=PMI_netinfo_of_task;
1S cmd=info-getjobattr-response;found=FALSE;rc=0;
1C cmd=kvs-put;key=bc1;value=val;;with;;semi=1;
1S cmd=kvs-put-response;rc=0;
0C cmd=kvs-put;key=bc0;value=val;;with;;semi=0;
0S cmd=kvs-put-response;rc=0;
1C cmd=kvs-fence;
0C cmd=info-getnodeattr;key=shm;wait=FALSE;
0S cmd=info-getnodeattr-response;found=FALSE;rc=0;
0C cmd=info-putnodeattr;key=shm;value=/dev/shm/x;
0S cmd=info-putnodeattr-response;rc=0;
0C cmd=kvs-fence;
0S cmd=kvs-fence-response;rc=0;
1S cmd=kvs-fence-response;rc=0;
1C cmd=kvs-get;jobid=3f2a.7.1;srcid=-1;key=bc0;
1S cmd=kvs-get-response;found=TRUE;value=val;;with;;semi=0;rc=0;
0C cmd=kvs-get;jobid=3f2a.7.1;srcid=-1;key=bc1;
0S cmd=kvs-get-response;found=TRUE;value=val;;with;;semi=1;rc=0;
0C cmd=kvs-get;jobid=3f2a.7.1;srcid=-1;key=bc2;
0S cmd=kvs-get-response;found=FALSE;rc=0;
1C cmd=info-getnodeattr;key=shm;wait=TRUE;
1S cmd=info-getnodeattr-response;found=TRUE;value=/dev/shm/x;rc=0;
0C cmd=name-publish;name=ocean;port=a;;b;
0S cmd=name-publish-response;rc=0;
1C cmd=name-lookup;name=ocean;
1S cmd=name-lookup-response;port=a;;b;found=TRUE;rc=0;
1C cmd=name-unpublish;name=ocean;
1S cmd=name-unpublish-response;rc=0;
1C cmd=name-lookup;name=ocean;
1S cmd=name-lookup-response;found=FALSE;rc=1;errmsg=service_not_found;
1C cmd=finalize;
1S cmd=finalize-response;rc=0;
0C cmd=finalize;
0S cmd=finalize-response;rc=0;
`
	c := newCluster(t, each(1, 2))
	start2(c, 0, 1)
	for l := range strings.Lines(strings.TrimSpace(script)) {
		r, text := filch.Rank(l[0]-'0'), strings.TrimSuffix(l[3:], "\n")
		if l[1] == 'C' {
			c.say(r, "%s", frame2(text))
			continue
		}
		c.want2(r, text)
	}
	c.quiet()
	if got := c.engines[0].State(0); got != pmi.Finalized {
		t.Errorf("rank 0 is %v, want finalized", got)
	}
}

// TestMalformed2 is the same as TestMalformed for PMI-2.
func TestMalformed2(t *testing.T) {
	long := strings.Repeat("x", 2000)
	tests := map[string]struct{ input, answer, breaks string }{
		"length-right":     {input: "    14cmd=job-getid;", answer: "cmd=job-getid-response;jobid=3f2a.7.1;rc=0;"},
		"length-letters":   {input: "abcdefcmd=job-getid;", breaks: "the length \"abcdef\""},
		"length-negative":  {input: "    -1", breaks: "the length \"    -1\""},
		"length-inside":    {input: "1 4   ", breaks: "the length"},
		"length-blank":     {input: "      ", breaks: "the length"},
		"length-huge":      {input: "999999", breaks: "the length \"999999\""},
		"length-short":     {input: "5     cmd=job-getid;", answer: "cmd=j-response;rc=1;errmsg=unknown command;", breaks: "the length \"ob-get\""},
		"length-zero":      {input: "0     ", breaks: "a line without a command"},
		"garbage":          {input: frame2("garbage"), breaks: "a word that is not name=value"},
		"equals":           {input: frame2("=;"), breaks: "an attribute's name that is empty"},
		"not-cmd":          {input: frame2("key=a;cmd=job-getid;"), breaks: "a line without a command"},
		"many-attributes":  {input: frame2("cmd=kvs-put;" + strings.Repeat("a=b;", 65)), breaks: "too many attributes"},
		"unknown":          {input: frame2("cmd=nosuch;thrid=7;"), answer: "cmd=nosuch-response;thrid=7;rc=1;errmsg=unknown command;"},
		"thrid":            {input: frame2("cmd=job-getid;thrid=a;;b;"), answer: "cmd=job-getid-response;thrid=a;;b;jobid=3f2a.7.1;rc=0;"},
		"long-thrid":       {input: frame2("cmd=job-getid;thrid=" + long + ";"), breaks: "a thrid of 2000 bytes"},
		"fullinit-twice":   {input: frame2("cmd=fullinit;pmirank=0;"), breaks: "a second fullinit"},
		"two-fences":       {input: frame2("cmd=kvs-fence;") + frame2("cmd=kvs-fence;"), breaks: "kvs-fence while in a fence"},
		"get-in-fence":     {input: frame2("cmd=kvs-fence;") + frame2("cmd=kvs-get;key=a;"), answer: "cmd=kvs-get-response;found=FALSE;rc=0;"},
		"put-long-value":   {input: frame2("cmd=kvs-put;key=a;value=" + long + ";"), answer: "cmd=kvs-put-response;rc=1;errmsg=value_too_long;"},
		"put-newline":      {input: frame2("cmd=kvs-put;key=a;value=b\nc;"), answer: "cmd=kvs-put-response;rc=1;errmsg=bad_bytes;"},
		"put-without-key":  {input: frame2("cmd=kvs-put;value=b;"), answer: "cmd=kvs-put-response;rc=1;errmsg=missing_key;"},
		"get-without-key":  {input: frame2("cmd=kvs-get;"), answer: "cmd=kvs-get-response;rc=1;errmsg=missing_key;"},
		"get-other-job":    {input: frame2("cmd=kvs-get;jobid=3f2a.8.1;key=a;"), answer: "cmd=kvs-get-response;rc=1;errmsg=wrong_jobid;"},
		"attr-without-key": {input: frame2("cmd=info-putnodeattr;value=a;"), answer: "cmd=info-putnodeattr-response;rc=1;errmsg=missing_key;"},
		"attr-long-value":  {input: frame2("cmd=info-putnodeattr;key=a;value=" + long + ";"), answer: "cmd=info-putnodeattr-response;rc=1;errmsg=value_too_long;"},
		"spawn":            {input: frame2("cmd=spawn;ncmds=1;"), answer: "cmd=spawn-response;rc=1;errmsg=bad ncmds;nerrs=0;"},
		"spawn-no-ranks":   {input: frame2("cmd=spawn;ncmds=1;subcmd=a;"), answer: "cmd=spawn-response;rc=1;errmsg=a program without a name or ranks;nerrs=0;"},
		"spawn-bad-ranks":  {input: frame2("cmd=spawn;ncmds=1;subcmd=a;maxprocs=-1;"), answer: "cmd=spawn-response;rc=1;errmsg=bad maxprocs;nerrs=0;"},
		"after-finalize":   {input: frame2("cmd=finalize;") + frame2("cmd=job-getid;"), answer: "cmd=finalize-response;rc=0;", breaks: "job-getid after finalize"},
		"last-open":        {input: frame2("cmd=job-getid"), answer: "cmd=job-getid-response;jobid=3f2a.7.1;rc=0;"},
	}
	for name, tt := range tests {
		for _, step := range []int{len(tt.input), 1} {
			t.Run(fmt.Sprintf("%s/bytes=%d", name, step), func(t *testing.T) {
				c := newCluster(t, each(2, 1))
				start2(c, 0, 1)
				for i := 0; i < len(tt.input); i += step {
					c.say(0, "%s", tt.input[i:min(i+step, len(tt.input))])
				}
				c.want2(0, tt.answer)
				checkBreak(c, tt.breaks)
				c.say(1, "%s", frame2("cmd=job-getid;"))
				c.want2(1, "cmd=job-getid-response;jobid=3f2a.7.1;rc=0;")
			})
		}
	}
}

func TestFullinit(t *testing.T) {
	c := newCluster(t, each(1, 2))
	c.say(0, "cmd=init pmi_version=2 pmi_subversion=0\n%s", frame2("cmd=fullinit;pmirank=1;"))
	if got := c.answer(0); !strings.Contains(got, "rc=1;errmsg=this is the connection of rank 0;") {
		t.Errorf("another rank's fullinit was answered %q", got)
	}
	c.say(1, "cmd=init pmi_version=2 pmi_subversion=0\n%s", frame2("cmd=job-getid;"))
	if len(c.breaks) != 1 || !strings.Contains(c.breaks[0].Text, "job-getid before fullinit") {
		t.Errorf("breaks %v, want one for a command before fullinit", c.breaks)
	}
}

func TestAbort2(t *testing.T) {
	for body, want := range map[string]pmi.Abort{
		"cmd=abort;isworld=TRUE;msg=no luck;": {Code: 1, Text: "no luck"},
		"cmd=abort;exitcode=9;message=gone;":  {Code: 9, Text: "gone"},
	} {
		c := newCluster(t, each(1, 1))
		start2(c, 0)
		c.say(0, "%s", frame2(body))
		if len(c.aborts) != 1 || c.aborts[0] != want {
			t.Errorf("%q is %v, want %v", body, c.aborts, want)
		}
	}
}

// TestNodeAttributeWaits has a get wait for a put of the same node; others go
// on, and a rank that leaves is forgotten.
func TestNodeAttributeWaits(t *testing.T) {
	c := newCluster(t, each(1, 3))
	start2(c, 0, 1, 2)
	for _, r := range []filch.Rank{0, 1} {
		c.say(r, "%s", frame2("cmd=info-getnodeattr;thrid=t;key=shm;wait=TRUE;"))
		c.want2(r, "")
	}
	c.say(0, "%s", frame2("cmd=job-getid;"))
	c.want2(0, "cmd=job-getid-response;jobid=3f2a.7.1;rc=0;")
	c.closed(1)
	c.say(2, "%s", frame2("cmd=info-putnodeattr;key=other;value=a;"))
	c.want2(0, "")
	c.answer(2)
	c.say(2, "%s", frame2("cmd=info-putnodeattr;key=shm;value=b;"))
	c.want2(0, "cmd=info-getnodeattr-response;thrid=t;found=TRUE;value=b;rc=0;")
	c.want(1, "")
	c.quiet()
	for range 100 {
		c.say(0, "%s", frame2("cmd=info-getnodeattr;key=never;wait=TRUE;"))
	}
	if got := strings.Count(c.answer(0), "too_many_requests"); got != 36 {
		t.Errorf("%d of 100 waiting gets were refused, want 36", got)
	}
}

// TestBothProtocols has ranks of PMI-1 and PMI-2 meet in one fence.
func TestBothProtocols(t *testing.T) {
	c := newCluster(t, each(2, 1))
	c.start(0)
	start2(c, 1)
	c.say(1, "%s", frame2("cmd=kvs-put;key=a;value=b;;c;"))
	c.answer(1)
	c.say(0, "cmd=barrier_in\n")
	c.say(1, "%s", frame2("cmd=kvs-fence;thrid=3;"))
	c.want(0, "cmd=barrier_out\n")
	c.want2(1, "cmd=kvs-fence-response;thrid=3;rc=0;")
	c.say(0, "cmd=get kvsname=%s key=a\n", kvsname)
	c.want(0, "cmd=get_result rc=0 msg=success value=b;c\n")
	c.quiet()
}

// TestSpawn2 passes the programs of a PMI-2 spawn on, and answers with the new job's name.
func TestSpawn2(t *testing.T) {
	c := newCluster(t, each(1, 1))
	start2(c, 0)
	c.say(0, "%s", frame2("cmd=spawn;thrid=7;ncmds=2;preputcount=1;ppkey0=PORT;ppval0=tag;;0;"+
		"subcmd=./a;maxprocs=2;argc=1;argv0=x=y z;infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=./b;maxprocs=1;argc=0;infokeycount=0;"))
	want := pmi.Spawn{ID: 1, Preput: []pmi.Pair{{Key: "PORT", Value: "tag;0"}}, Apps: []pmi.SpawnApp{
		{Argv: []string{"./a", "x=y z"}, Ranks: 2, Info: []pmi.Pair{{Key: "wdir", Value: "/tmp"}}}, {Argv: []string{"./b"}, Ranks: 1},
	}}
	if len(c.spawns) != 1 || !reflect.DeepEqual(c.spawns[0], want) {
		t.Errorf("got %+v\nwant %+v", c.spawns, want)
	}
	c.spawned(0, 1, pmi.SpawnResult{Namespace: "3f2a.8.1", Ranks: 3})
	c.want2(0, "cmd=spawn-response;thrid=7;rc=0;jobid=3f2a.8.1;nerrs=0;")
	c.quiet()
}
