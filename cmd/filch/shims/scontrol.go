package shims

import (
	"fmt"
	"os"
	"slices"
	"strings"

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
		case "node", "nodes":
			return showNodes(words[2:], oneLine)
		case "step", "steps":
			return refuseOfJobs("scontrol show "+what, "filch ps lists steps")
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
	case len(words) >= 2 && (words[0] == "hold" || words[0] == "uhold"):
		return holdJobs(words[1:], cli.Person())
	case len(words) >= 2 && words[0] == "release":
		return holdJobs(words[1:], "")
	case len(words) > 0 && wordsOfJobs[words[0]] != "":
		return refuseOfJobs("scontrol "+words[0], wordsOfJobs[words[0]])
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

// wordsOfJobs are further words of scontrol that act on jobs or nodes, with what to use. The
// real scontrol knows other jobs by the same numbers, and is never asked.
var wordsOfJobs = map[string]string{
	"update": "submit the job again with other options; filch drain and filch undrain are for nodes", "suspend": "filch hold holds jobs that wait",
	"resume": "filch hold holds jobs that wait", "requeuehold": "call scontrol requeue, then scontrol hold", "top": "jobs start in the order of submission",
	"notify": "write to the output of the job", "listpids": "filch explain shows a job", "wait_job": "use sbatch --wait or filch wait",
	"completing": "filch ps lists jobs", "write": "the script is in the folder batch of the instance's home", "delete": "filch cancel ends a job",
	"create": "an instance has no reservations", "cancel_reboot": "filch starts no nodes", "reboot": "filch starts no nodes",
}

// refuseOfJobs refuses a call where there is an instance.
func refuseOfJobs(call, hint string) int {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err != nil {
		return absentOr(err)
	}
	c.Close()
	return ui.Fail(filch.Errorf(filch.Invalid, "filch does not do %s", call).WithHint("%s", hint))
}

// forJobs has a call of scontrol change the jobs of each id in its words. It returns the
// exit code of the last id that failed; do returns 0 for an id that did not.
func forJobs(words []string, do func(c *client.Client, jobs []batchJob) int) int {
	code := 0
	for id := range strings.SplitSeq(strings.Join(words, ","), ",") {
		jobs, c, err := batchJobs([]string{id})
		if err != nil {
			if c != nil {
				c.Close()
			}
			return absentOr(err)
		}
		if len(jobs) == 0 {
			code = ui.Fail(filch.Errorf(filch.NotFound, "Invalid job id specified for job %s", ui.Clean(id)))
		}
		if failed := do(c, jobs); failed != 0 {
			code = failed
		}
		c.Close()
	}
	return code
}

// holdJobs is scontrol hold, and with nobody scontrol release.
func holdJobs(words []string, by string) int {
	return forJobs(words, func(c *client.Client, jobs []batchJob) (code int) {
		waits := slices.ContainsFunc(jobs, func(j batchJob) bool { return j.state().short == "PD" })
		for i := range jobs {
			j := &jobs[i]
			switch {
			case j.state().short == "PD" || by == "" && j.active():
				if err := cli.Ask(c, cli.QueryWait, nil, wire.VerbHold, j.ID.String(), by); err != nil {
					code = ui.Fail(err)
				}
			case !waits: // of an array, the jobs that wait are meant
				code = ui.Fail(filch.Errorf(filch.Busy, "Job is no longer pending execution for job %s", j.id()))
			}
		}
		return code
	})
}

// showNodes is scontrol show node.
func showNodes(list []string, oneLine bool) int {
	nodes, _, _, err := resources()
	if err != nil {
		return absentOr(err)
	}
	if len(list) > 0 {
		names, err := spec.Hosts(strings.Join(list, ","))
		if err != nil {
			return ui.Fail(err)
		}
		for _, name := range names {
			if !slices.ContainsFunc(nodes, func(n wire.NodeInfo) bool { return n.Node == name }) {
				fmt.Printf("Node %s not found\n", ui.Clean(string(name)))
				return 1
			}
		}
		nodes = slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool { return !slices.Contains(names, n.Node) })
	}
	for i := range nodes {
		text := showNode(&nodes[i])
		if oneLine {
			text = strings.ReplaceAll(text, "\n   ", " ")
		}
		fmt.Println(text + "\n")
	}
	return 0
}

// showNode is a node as scontrol show node prints it, without the fields that have no meaning
// here.
func showNode(n *wire.NodeInfo) string {
	labels, mem := or(string(n.Labels), "(null)"), n.MemBytes>>20
	state := map[string]string{"mix": "MIXED", "alloc": "ALLOCATED", "idle": "IDLE", "drain": "DRAIN"}[nodeKind(*n)]
	if state == "DRAIN" {
		if state = "IDLE+DRAIN"; n.Free < n.Slots {
			state = "MIXED+DRAIN"
		}
	}
	tres := fmt.Sprintf("cpu=%d,mem=%dM,billing=%d", n.Slots, mem, n.Slots)
	if g := len(n.GPUs); g > 0 {
		tres += fmt.Sprintf(",gres/gpu=%d", g)
	}
	used := ""
	if n.Free < n.Slots {
		used = fmt.Sprintf("cpu=%d", n.Slots-n.Free)
	}
	lines := []string{
		fmt.Sprintf("NodeName=%s CoresPerSocket=%d", n.Node, n.Slots),
		fmt.Sprintf("CPUAlloc=%d CPUEfctv=%d CPUTot=%d CPULoad=N/A", n.Slots-n.Free, n.Slots, n.Slots),
		"AvailableFeatures=" + labels,
		"ActiveFeatures=" + labels,
		"Gres=" + or(gres(*n), "(null)"),
		fmt.Sprintf("NodeAddr=%s NodeHostName=%s Version=22.05.8", n.Node, n.Node),
		fmt.Sprintf("RealMemory=%d AllocMem=%d FreeMem=%d Sockets=1 Boards=1", mem, mem-n.MemFree>>20, n.MemFree>>20),
		fmt.Sprintf("State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A", state),
		"Partitions=" + batchHome,
		"CfgTRES=" + tres,
		"AllocTRES=" + used,
	}
	if why := drainReason(*n); why != "" {
		lines = append(lines, "Reason="+why)
	}
	for i, l := range lines {
		lines[i] = ui.Clean(l)
	}
	return strings.Join(lines, "\n   ")
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
		fmt.Sprintf("JobState=%s Reason=%s Dependency=%s", j.state().long, reason, or(j.Dep, "(null)")),
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
