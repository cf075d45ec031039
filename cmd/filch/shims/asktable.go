package shims

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// This file has the options of Slurm's commands that ask about jobs and nodes. An option
// that filch does not do is refused: the real command knows nothing of the instance.

const (
	oneCluster   = "the instance is one cluster with one partition"
	clusterNames = "all or filch; other names are refused"
	useFormat    = "use --format"
)

func tableOf(parts ...spec.Table) spec.Table { return slices.Concat(parts...) }

// common are the options that many of the commands have.
func common(help, more string) spec.Table {
	return tableOf(
		spec.Rows(spec.Done, oneCluster, more),
		spec.Rows(spec.Done, "names filch shim options", help+" usage V,version"),
		spec.Rows(spec.Done, "the command has no more to tell", "v,verbose"),
	)
}

func squeueTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", `A,account=NAMES accounts=NAMES r,array array-unique o,format=FORMAT j,jobs[=IDS] job[=IDS] l,long me n,name=NAMES w,nodelist=NODES
			h,noheader p,partition=NAMES partitions=NAMES q,qos=NAMES R,reservation=NAME S,sort=FIELDS t,states=STATES u,user=NAMES users=NAMES`),
		common("help", "a,all hide local federation sibling noconvert P,priority"),
		spec.Rows(spec.Done, clusterNames, "M,clusters=NAMES"),
		spec.Rows(spec.Refused, useFormat, "O,Format=FORMAT json yaml"),
		spec.Rows(spec.Refused, "filch ps lists steps, too", "s,steps[=IDS] step[=IDS]"),
		spec.Rows(spec.Refused, "call squeue again", "i,iterate=SEC"),
		spec.Rows(spec.Refused, "filch counts no licenses", "L,licenses=NAMES"),
		spec.Rows(spec.Refused, "filch explain tells when a job can start", "start"),
	)
}

func scancelTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", "A,account=NAME b,batch f,full me n,name=NAME jobname=NAME w,nodelist=NODES p,partition=NAME q,qos=NAME R,reservation=NAME s,signal=SIG t,state=STATE u,user=NAME wckey=KEY Q,quiet"),
		common("help", "ctld H,hurry"),
		spec.Rows(spec.Done, clusterNames, "M,clusters=NAMES"),
		spec.Rows(spec.Refused, oneCluster, "sibling=NAME"),
		spec.Rows(spec.Refused, "scancel asks no questions", "i,interactive"),
	)
}

func sacctTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", `A,accounts=NAMES b,brief delimiter=TEXT E,endtime=TIME e,helpformat o,format=FIELDS j,jobs=IDS name=NAMES N,nodelist=NODES n,noheader
			p,parsable P,parsable2 r,partition=NAMES q,qos=NAMES S,starttime=TIME s,state=STATES u,uid=NAMES user=NAMES W,wckeys=KEYS`),
		spec.Rows(spec.Done, "sacct of filch shows one line per job anyway", "X,allocations"),
		common("h,help", "a,allusers L,allclusters D,duplicates local federation noconvert use-local-uid whole-hetjob[=yes|no]"),
		spec.Rows(spec.Done, clusterNames, "M,clusters=NAMES"),
		spec.Rows(spec.Refused, oneCluster, "g,gid=GROUPS group=GROUPS x,associations=IDS"),
		spec.Rows(spec.Refused, useFormat, "l,long json yaml units=UNIT T,truncate"),
		spec.Rows(spec.Refused, "the launchers keep jobs, and no accounting files", "c,completion f,file=FILE F,flags=LIST B,batch-script env-vars"),
		spec.Rows(spec.Refused, "select with --jobs, --name or --state", "C,constraints=LIST i,nnodes=RANGE I,ncpus=RANGE R,reason=LIST k,timelimit-min=LIMIT K,timelimit-max=LIMIT"),
	)
}

func scontrolTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", "o,oneliner"),
		common("h,help", "a,all hide local federation sibling d,details Q,quiet"),
		spec.Rows(spec.Done, clusterNames, "M,clusters=NAMES cluster=NAMES"),
		spec.Rows(spec.Refused, oneCluster, "F,future u,uid=USER"),
	)
}

func sinfoTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", "o,format=FORMAT h,noheader n,nodes=NODES N,Node p,partition=NAMES s,summarize t,states=STATES"),
		common("help", "a,all hide local federation noconvert e,exact r,responding"),
		spec.Rows(spec.Done, clusterNames, "M,clusters=NAMES"),
		spec.Rows(spec.Refused, useFormat, "O,Format=FORMAT json yaml l,long S,sort=FIELDS"),
		spec.Rows(spec.Refused, "call sinfo again", "i,iterate=SEC"),
		spec.Rows(spec.Refused, "filch nodes shows lost and draining nodes", "d,dead R,list-reasons T,reservation"),
	)
}

// question is a command line of a query command.
type question struct {
	set   map[string]string
	words []string
}

// readQuestion reads a command line; options may stand behind words, as getopt allows. The
// variables of the command give way to the options.
func readQuestion(args []string, table spec.Table) (question, error) {
	q := question{set: map[string]string{}}
	var err error
	q.words, err = table.Scan(args, func(o *spec.Option, value string) error {
		if o.Fate == spec.Refused {
			return filch.Errorf(filch.Invalid, "filch does not do --%s", o.Name).WithHint("%s", o.Note)
		}
		value = strings.TrimPrefix(value, "=") // -o=FORMAT, which Slurm takes
		if (o.Name == "clusters" || o.Name == "cluster") && value != "all" && value != batchHome {
			return filch.Errorf(filch.Invalid, "filch has no cluster %s", ui.Clean(value)).WithHint("%s", oneCluster)
		}
		q.set[o.Name] = value
		return nil
	})
	if err == nil {
		q.environ(ui.Self.Name, table, os.Getenv)
	}
	return q, err
}

// get is the value of the first of the names that was set.
func (q question) get(names ...string) (string, bool) {
	for _, n := range names {
		if v, ok := q.set[n]; ok {
			return v, true
		}
	}
	return "", false
}

// has reports whether one of the options was set.
func (q question) has(names ...string) bool {
	_, ok := q.get(names...)
	return ok
}

// ids are the jobs asked for: squeue takes the word behind -j, too.
func (q *question) ids() []string {
	list, _ := q.get("jobs", "job")
	if list == "-" {
		if list = ""; len(q.words) > 0 {
			list, q.words = q.words[0], q.words[1:]
		}
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// among reports whether one of the options lists one of the values; true without the
// option.
func (q question) among(values []string, names ...string) bool {
	list, ok := q.get(names...)
	return !ok || slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return slices.Contains(values, s) })
}

// keeps reports whether a job passes the filters.
func (q question) keeps(j batchJob, states string) bool {
	p := &j.page
	if !q.among([]string{j.Name}, "name", "jobname") || !q.among([]string{cli.UserName(), uid()}, "user", "users", "uid") ||
		!q.among([]string{p.Account}, "account", "accounts") || !q.among([]string{p.Partition}, "partition", "partitions") ||
		!q.among([]string{p.qos()}, "qos") || !q.among([]string{p.Reservation}, "reservation") || !q.among([]string{p.WCKey}, "wckey", "wckeys") {
		return false
	}
	if list, ok := q.get("nodelist"); ok {
		names, err := spec.Hosts(list)
		if err != nil || !slices.ContainsFunc(j.Nodes, func(n filch.NodeName) bool { return slices.Contains(names, n) }) {
			return false
		}
	}
	if states == "" {
		return true
	}
	st := j.state()
	for s := range strings.SplitSeq(strings.ToUpper(states), ",") {
		if s == "ALL" || s == st.long || s == st.short {
			return true
		}
	}
	return false
}

// sortBy orders jobs by squeue's letters, each with + or - in front.
func sortBy(jobs []batchJob, fields string) {
	for field := range strings.SplitSeq(fields, ",") {
		letter := strings.TrimLeft(field, "+-")
		if len(letter) != 1 {
			continue
		}
		sign := 1
		if strings.HasPrefix(field, "-") {
			sign = -1
		}
		slices.SortStableFunc(jobs, func(a, b batchJob) int {
			x, y := a.squeueField(letter[0], a.id()), b.squeueField(letter[0], b.id())
			n, err1 := strconv.Atoi(x)
			m, err2 := strconv.Atoi(y)
			if err1 == nil && err2 == nil {
				return sign * (n - m)
			}
			return sign * strings.Compare(x, y)
		})
	}
}

// helped prints the help or the version that a command line asks for.
func (q question) helped() bool {
	if !q.has("help", "usage", "version") {
		return false
	}
	ui.Say("a command of filch that stands for Slurm's; filch shim options " + ui.Self.Name + " lists its options")
	return true
}
