package shims

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// scontrolMain is scontrol, as far as programs call it.
func scontrolMain(args []string) int {
	q, err := readQuestion(args, scontrolTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	words, oneLine := q.words, q.has("oneliner")
	switch {
	case len(words) >= 2 && words[0] == "show":
		switch what := words[1]; what {
		case "job", "jobs", "jobid":
			return showJobs(words[2:], oneLine)
		case "config":
			fmt.Print("KillWait                = 10 sec\nMaxArraySize            = 10001\nMinJobAge               = 300 sec\nSLURM_VERSION           = 22.05.8\nClusterName             = filch\n")
			return 0
		case "partition", "partitions":
			return showPartition()
		case "hostnames", "hostname":
			return showHosts(words[2:])
		case "hostlist":
			names, err := spec.Hosts(strings.Join(words[2:], ","))
			if err != nil {
				return ui.Fail(err)
			}
			fmt.Println(spec.FormatHosts(names))
			return 0
		}
	case len(words) >= 2 && words[0] == "requeue":
		return requeueJobs(words[1:])
	case len(words) == 1 && words[0] == "ping":
		c, err := client.Dial(client.Options{Build: cli.Build})
		if err != nil {
			return absentOr(err)
		}
		defer c.Close()
		fmt.Printf("Slurmctld(primary) at %s is UP\n", c.Dir.Node)
		return 0
	}
	return handOn("filch does not do scontrol " + ui.Clean(strings.Join(args, " ")))
}

func showHosts(words []string) int {
	list := strings.Join(words, ",")
	if list == "" {
		list = os.Getenv("SLURM_JOB_NODELIST")
	}
	names, err := spec.Hosts(list)
	if err != nil {
		return ui.Fail(err)
	}
	for _, n := range names {
		fmt.Println(n)
	}
	return 0
}

func showJobs(ids []string, oneLine bool) int {
	jobs, c, err := batchJobs(ids)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return absentOr(err)
	}
	if len(ids) > 0 && len(jobs) == 0 {
		fmt.Fprintln(os.Stderr, noSuchJob)
		return 1
	}
	for _, j := range jobs {
		text := j.scontrol()
		if oneLine {
			text = strings.ReplaceAll(text, "\n   ", " ")
		}
		fmt.Println(text + "\n")
	}
	return 0
}

// scontrol is the job as `scontrol show job` prints it, without the fields that
// have no meaning here.
func (j batchJob) scontrol() string {
	s := j.page.Shape
	user := fmt.Sprintf("%s(%d)", cli.UserName(), os.Getuid())
	nodes, host := spec.FormatHosts(j.Nodes), ""
	if len(j.Nodes) > 0 {
		host = string(j.Nodes[0])
	}
	array := ""
	if j.page.Array > 0 {
		array = fmt.Sprintf(" ArrayJobId=%d ArrayTaskId=%d", j.page.Array, j.page.Index)
	}
	reason := "None"
	if j.state().short == "PD" {
		reason = j.reason()
	}
	requeue := 1
	if j.page.NoRequeue {
		requeue = 0
	}
	out := j.page.expandOnShow(j.page.Out)
	errs := out
	if j.page.Err != "" {
		errs = j.page.expandOnShow(j.page.Err)
	}
	lines := []string{
		fmt.Sprintf("JobId=%d%s JobName=%s", j.ID, array, j.Name),
		fmt.Sprintf("UserId=%s GroupId=%s MCS_label=N/A", user, user),
		fmt.Sprintf("Priority=1 Nice=0 Account=%s QOS=%s", j.page.Account, j.page.qos()),
		fmt.Sprintf("JobState=%s Reason=%s Dependency=(null)", j.state().long, reason),
		fmt.Sprintf("Requeue=%d Restarts=%d BatchFlag=1 Reboot=0 ExitCode=%s", requeue, max(j.Attempt-1, 0), j.exitCode()),
		fmt.Sprintf("RunTime=%s TimeLimit=%s TimeMin=N/A", clockTime(j.elapsed(), true), j.limit()),
		fmt.Sprintf("SubmitTime=%s EligibleTime=%s", stamp(j.submitted(), "Unknown"), stamp(j.submitted(), "Unknown")),
		fmt.Sprintf("StartTime=%s EndTime=%s Deadline=N/A", stamp(j.started(), "Unknown"), stamp(j.ended(), "Unknown")),
		fmt.Sprintf("Partition=%s AllocNode:Sid=%s:0", j.page.Partition, j.Origin),
		"NodeList=" + nodes,
		"BatchHost=" + host,
		fmt.Sprintf("NumNodes=%s NumCPUs=%d NumTasks=%d CPUs/Task=%d", j.squeueField('D', ""), s.Tasks*s.CPUs, s.Tasks, s.CPUs),
		"Command=" + j.page.Command,
		"WorkDir=" + j.page.Dir,
		"StdErr=" + errs,
		"StdIn=/dev/null",
		"StdOut=" + out,
	}
	for i, l := range lines {
		lines[i] = ui.Clean(l)
	}
	return strings.Join(lines, "\n   ")
}

func (p *page) expandOnShow(pattern string) string {
	path := p.expand(pattern)
	if !strings.HasPrefix(path, "/") {
		path = p.Dir + "/" + path
	}
	return path
}

// resources asks for the nodes and sums up their resources.
func resources() (nodes []wire.NodeInfo, slots int, mem int64, err error) {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err != nil {
		return nil, 0, 0, err
	}
	defer c.Close()
	if nodes, err = cli.QueryNodes(c); err != nil {
		return nil, 0, 0, err
	}
	nodes = slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool { return n.State == "dead" || n.State == "left" })
	for _, n := range nodes {
		slots += int(n.Slots)
		mem += n.MemBytes >> 20
	}
	return nodes, slots, mem, nil
}

func nodeList(nodes []wire.NodeInfo) string {
	names := make([]filch.NodeName, len(nodes))
	for i, n := range nodes {
		names[i] = n.Node
	}
	return spec.FormatHosts(names)
}

func showPartition() int {
	nodes, slots, mem, err := resources()
	if err != nil {
		return absentOr(err)
	}
	fmt.Printf("PartitionName=%s\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n   AllocNodes=ALL Default=YES QoS=N/A\n"+
		"   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0\n   Nodes=%s\n   State=UP TotalCPUs=%d TotalNodes=%d\n   TRES=cpu=%d,mem=%dM,node=%d,billing=%d\n\n",
		batchHome, nodeList(nodes), slots, len(nodes), slots, mem, len(nodes), slots)
	return 0
}

// sinfoMain is sinfo: one partition with every node.
func sinfoMain(args []string) int {
	q, err := readQuestion(args, sinfoTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	nodes, _, _, err := resources()
	if err != nil {
		return absentOr(err)
	}
	if nodes, err = q.nodesAsked(nodes); err != nil {
		return ui.Fail(err)
	}
	format, ok := q.get("format")
	switch {
	case ok:
	case q.has("Node"):
		format = "%18N %.6D %.9P %6t"
	case q.has("summarize"):
		format = "%9P %.5a %.10l %.16F  %N"
	default:
		format = "%9P %.5a %.10l %.6D %.6t %N"
	}
	if !q.has("noheader") {
		fmt.Println(squeueLine(format, func(c byte) string { return sinfoHeads[c] }))
	}
	if q.has("Node") { // a line for each node
		for i := range nodes {
			fmt.Println(squeueLine(format, func(c byte) string { return sinfoField(c, nodeKind(nodes[i]), nodes[i:i+1]) }))
		}
		return 0
	}
	kinds := []string{"all"}
	if strings.Contains(format, "t") || strings.Contains(format, "T") {
		kinds = []string{"mix", "alloc", "idle", "drain"}
	}
	for _, kind := range kinds {
		these := slices.DeleteFunc(slices.Clone(nodes), func(n wire.NodeInfo) bool { return kind != "all" && nodeKind(n) != kind })
		if len(these) > 0 {
			fmt.Println(squeueLine(format, func(c byte) string { return sinfoField(c, kind, these) }))
		}
	}
	return 0
}

// nodesAsked keeps the nodes that the options select.
func (q question) nodesAsked(nodes []wire.NodeInfo) ([]wire.NodeInfo, error) {
	var names []filch.NodeName
	if list, ok := q.get("nodes"); ok {
		var err error
		if names, err = spec.Hosts(list); err != nil {
			return nil, err
		}
	}
	states, _ := q.get("states")
	return slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool {
		return names != nil && !slices.Contains(names, n.Node) || !q.among([]string{batchHome}, "partition") || !stateAsked(states, nodeKind(n))
	}), nil
}

// stateAsked reports whether a list of states has a state, in its short or long form.
func stateAsked(list, kind string) bool {
	if list == "" {
		return true
	}
	for s := range strings.SplitSeq(strings.ToLower(list), ",") {
		if s == "all" || s != "" && strings.HasPrefix(s, kind) || s == "mixed" && kind == "mix" {
			return true
		}
	}
	return false
}

func nodeKind(n wire.NodeInfo) string {
	switch {
	case n.State == "draining":
		return "drain"
	case n.Free == n.Slots:
		return "idle"
	case n.Free == 0:
		return "alloc"
	}
	return "mix"
}

var sinfoHeads = map[byte]string{
	'P': "PARTITION", 'R': "PARTITION", 'a': "AVAIL", 'l': "TIMELIMIT", 'D': "NODES", 't': "STATE", 'T': "STATE", 'N': "NODELIST", 'G': "GRES", 'p': "PRIO_TIER",
	'c': "CPUS", 'm': "MEMORY", 'C': "CPUS(A/I/O/T)", 'n': "HOSTNAMES", 'F': "NODES(A/I/O/T)",
}

func sinfoField(c byte, kind string, nodes []wire.NodeInfo) string {
	switch c {
	case 'P':
		return batchHome + "*"
	case 'R':
		return batchHome
	case 'a':
		return "up"
	case 'l':
		return "infinite"
	case 'D':
		return fmt.Sprint(len(nodes))
	case 't', 'T':
		return kind
	case 'N':
		return nodeList(nodes)
	case 'G':
		return "(null)"
	case 'p':
		return "1"
	case 'c':
		return fmt.Sprint(nodes[0].Slots)
	case 'm':
		return fmt.Sprint(nodes[0].MemBytes >> 20)
	case 'n':
		return string(nodes[0].Node)
	case 'F':
		busy, idle := 0, 0
		for _, n := range nodes {
			switch nodeKind(n) {
			case "idle":
				idle++
			case "mix", "alloc":
				busy++
			}
		}
		return fmt.Sprintf("%d/%d/%d/%d", busy, idle, len(nodes)-busy-idle, len(nodes))
	case 'C':
		free, total := int32(0), int32(0)
		for _, n := range nodes {
			free, total = free+n.Free, total+n.Slots
		}
		return fmt.Sprintf("%d/%d/0/%d", total-free, free, total)
	}
	return ""
}

// sacctmgrMain is sacctmgr: it lists the accounts of the user.
func sacctmgrMain(args []string) int {
	width, header := 0, true
	for _, a := range args {
		if a == "-n" || a == "--noheader" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "n") {
			header = false
		}
		if i := strings.Index(strings.ToLower(a), "account%"); i >= 0 {
			_, _ = fmt.Sscanf(a[i+len("account%"):], "%d", &width)
		}
	}
	words := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(words) == 0 || words[0] != "list" && words[0] != "show" {
		return handOn("filch does not do sacctmgr " + ui.Clean(strings.Join(args, " ")))
	}
	if header {
		fmt.Println(padded("Account", width, true))
		fmt.Println(strings.Repeat("-", max(width, 10)))
	}
	for _, name := range accounts(args) {
		fmt.Println(padded(ui.Clean(name), width, true))
	}
	return 0
}

// accountsWait bounds the wait for the answer of the site's sacctmgr.
const accountsWait = 5 * time.Second

// accounts are the names of accounts that a client may use: those of the environment, of
// the batch jobs, of the site's sacctmgr if there is one, and filch.
func accounts(args []string) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, v := range []string{"SBATCH_ACCOUNT", "SLURM_ACCOUNT", "SLURM_JOB_ACCOUNT"} {
		add(os.Getenv(v))
	}
	jobs, c, err := batchJobs(nil)
	if c != nil {
		c.Close()
	}
	if err == nil {
		for i := range jobs {
			add(jobs[i].page.Account)
		}
	}
	if path, err := cli.RealCommand(ui.Self.Name); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), accountsWait)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, append([]string{"-n", "-P"}, args...)...).Output()
		for name := range strings.FieldsSeq(string(out)) {
			if err == nil {
				add(name)
			}
		}
	}
	add(batchHome)
	return names
}
