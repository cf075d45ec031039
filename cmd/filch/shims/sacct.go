package shims

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
)

// sacctMain is sacct.
func sacctMain(args []string) int {
	q, err := readQuestion(args, sacctTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	if q.has("helpformat") {
		fmt.Println(strings.Join(append(slices.Clip(sacctFields), sacctBlank...), " "))
		return 0
	}
	jobs, c, err := batchJobs(q.ids())
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return absentOr(err)
	}
	from, to, err := q.window(time.Now())
	if err != nil {
		return ui.Fail(err)
	}
	format, ok := q.get("format")
	switch {
	case ok:
	case q.has("brief"):
		format = "JobID,State,ExitCode"
	default:
		format = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	}
	states, _ := q.get("state")
	delimiter, ok := q.get("delimiter")
	if !ok {
		delimiter = "|"
	}
	parsable, parsable2 := q.has("parsable"), q.has("parsable2")
	fields, err := sacctAsked(format)
	if err != nil {
		return ui.Fail(err)
	}
	if err := addSteps(c, jobs, fields); err != nil {
		return ui.Fail(err)
	}
	row := sacctRows(fields, parsable, parsable2, delimiter)
	if !q.has("noheader") {
		row(sacctField, false)
		if !parsable && !parsable2 {
			row(func(string) string { return "" }, true)
		}
	}
	for _, j := range jobs {
		if q.keeps(j, states) && j.within(from, to) {
			row(j.sacctField, false)
		}
	}
	return 0
}

// sacctAsked reads a list of fields, whose names may be cut, with widths. As sacct, it refuses
// a field that is none.
func sacctAsked(format string) (fields []string, err error) {
	for f := range strings.SplitSeq(format, ",") {
		name, width, sized := strings.Cut(strings.TrimSpace(f), "%")
		known := sacctField(name)
		switch {
		case name == "":
			continue
		case known == "":
			return nil, filch.Errorf(filch.Invalid, "Invalid field requested: %q", ui.Clean(name)).WithHint("sacct --helpformat lists the fields")
		case sized:
			known += "%" + width
		}
		fields = append(fields, known)
	}
	return fields, nil
}

// sacctField is a field by its name, or by the beginning of its name; "" without such a field.
func sacctField(name string) string {
	all := append(slices.Clip(sacctFields), sacctBlank...)
	for _, fits := range []func(f string) bool{
		func(f string) bool { return strings.EqualFold(f, name) },
		func(f string) bool { return len(f) > len(name) && strings.EqualFold(f[:len(name)], name) },
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i]
		}
	}
	return ""
}

// sacctRows returns the printer of a line: of the fields, or of the dashes below the head.
func sacctRows(fields []string, parsable, parsable2 bool, delimiter string) func(of func(string) string, dashes bool) {
	return func(of func(string) string, dashes bool) {
		var b strings.Builder
		for i, f := range fields {
			name, width, sized := strings.Cut(f, "%")
			n := 10
			if sized {
				n, _ = strconv.Atoi(width)
			} else if strings.EqualFold(name, "jobid") || strings.EqualFold(name, "jobidraw") {
				n = -12
			}
			v := ui.Clean(of(strings.ToLower(strings.TrimSpace(name))))
			switch {
			case parsable || parsable2:
				if i > 0 {
					b.WriteString(delimiter)
				}
				b.WriteString(v)
			case dashes:
				b.WriteString(strings.Repeat("-", max(n, -n)) + " ")
			default:
				b.WriteString(padded(v, max(n, -n), n > 0) + " ")
			}
		}
		if parsable {
			b.WriteString(delimiter)
		}
		fmt.Println(b.String())
	}
}

// usageFields are the fields with the usage of a job and its steps.
var usageFields = []string{"maxrss", "totalcpu", "usercpu", "systemcpu"}

// addSteps adds the usage of the steps of each job, if a field shows the usage: a batch job's own rank is the script.
func addSteps(c *client.Client, jobs []batchJob, fields []string) error {
	if !slices.ContainsFunc(fields, func(f string) bool {
		name, _, _ := strings.Cut(f, "%")
		return slices.Contains(usageFields, strings.ToLower(strings.TrimSpace(name)))
	}) {
		return nil // without a question to all nodes
	}
	list, err := cli.QueryJobs(c)
	if err != nil {
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		for k := range list {
			if s := &list[k]; s.Parent == j.ID {
				j.User, j.System = j.User+s.User, j.System+s.System
				j.Peak = max(j.Peak, s.Peak)
			}
		}
	}
	return nil
}

// cpuTime writes processor time as sacct does: milliseconds below an hour.
func cpuTime(secs float64) string {
	d := time.Duration(secs * float64(time.Second))
	if d >= time.Hour {
		return clockTime(d, true)
	}
	return fmt.Sprintf("%02d:%02d.%03d", d/time.Minute, d%time.Minute/time.Second, d%time.Second/time.Millisecond)
}

// sacctFields are the fields with values.
var sacctFields = strings.Fields(`Account AllocCPUS AllocNodes AllocTRES Cluster Comment Constraints CPUTime CPUTimeRAW DerivedExitCode Elapsed ElapsedRaw Eligible
	End ExitCode GID JobID JobIDRaw JobName MaxRSS NCPUS NNodes NodeList NTasks Partition Planned Priority QOS Reason ReqCPUS ReqMem ReqNodes ReqTRES Reservation
	Reserved Start State Submit Suspended SystemCPU Timelimit TimelimitRaw TotalCPU UID User UserCPU WCKey WorkDir`)

// sacctBlank are the further fields of sacct: nothing is known here.
var sacctBlank = strings.Fields(`AdminComment AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize BlockID ConsumedEnergy ConsumedEnergyRaw
	Container DBIndex Flags Group Layout MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode
	MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask PlannedCPU PlannedCPURAW QOSRAW ReqCPUFreq
	ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReservationId ResvCPU ResvCPURAW SubmitLine SystemComment TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode
	TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode
	TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot WCKeyID`)

func (j batchJob) sacctField(name string) string {
	switch name {
	case "jobid":
		return j.id()
	case "jobidraw":
		return j.ID.String()
	case "jobname":
		return j.Name
	case "state":
		return j.state().long
	case "exitcode":
		return j.exitCode()
	case "derivedexitcode":
		return "0:0"
	case "alloccpus", "ncpus", "reqcpus":
		return j.squeueField('C', "")
	case "nnodes", "allocnodes", "reqnodes":
		return j.squeueField('D', "")
	case "ntasks":
		return strconv.Itoa(int(j.page.Shape.Tasks))
	case "elapsed":
		return clockTime(j.elapsed(), true)
	case "elapsedraw":
		return strconv.Itoa(int(j.elapsed() / time.Second))
	case "cputimeraw":
		return strconv.Itoa(int(j.elapsed()/time.Second) * int(j.page.Shape.Tasks*j.page.Shape.CPUs))
	case "cputime":
		return clockTime(j.elapsed()*time.Duration(j.page.Shape.Tasks*j.page.Shape.CPUs), true)
	case "start":
		return stamp(j.started(), "Unknown")
	case "end":
		return stamp(j.ended(), "Unknown")
	case "submit":
		return stamp(j.submitted(), "Unknown")
	case "nodelist":
		if len(j.Nodes) == 0 {
			return "None assigned"
		}
		return spec.FormatHosts(j.Nodes)
	case "user":
		return cli.UserName()
	case "uid":
		return uid()
	case "account":
		return j.page.Account
	case "partition":
		return j.page.Partition
	case "qos":
		return j.page.qos()
	case "reservation":
		return j.page.Reservation
	case "wckey":
		return j.page.WCKey
	case "comment":
		return j.page.Comment
	case "reason":
		return "None"
	case "workdir":
		return j.page.Dir
	case "timelimit":
		return j.limit()
	case "reqmem":
		return spec.FormatMemory(j.page.Shape.Mem)
	}
	return j.usageField(name)
}

// tres are the resources of a job as sacct lists them.
func (j batchJob) tres() string {
	cpus := j.squeueField('C', "")
	text := "billing=" + cpus + ",cpu=" + cpus
	if mem := j.page.Shape.Mem; mem > 0 {
		text += ",mem=" + spec.FormatMemory(mem*int64(max(j.page.Shape.Nodes, 1)))
	}
	return text + ",node=" + j.squeueField('D', "")
}

func (j batchJob) usageField(name string) string {
	switch {
	case name == "alloctres" && !j.started().IsZero(), name == "reqtres":
		return j.tres()
	case name == "cluster":
		return batchHome
	case name == "constraints":
		return j.page.Labels
	case name == "eligible":
		return stamp(j.submitted(), "Unknown")
	case name == "gid":
		return strconv.Itoa(os.Getgid())
	case name == "planned", name == "reserved":
		return clockTime(time.Duration(j.Waited*float64(time.Second)), true)
	case name == "priority":
		return "1"
	case name == "timelimitraw" && j.page.Shape.Limit > 0:
		return strconv.Itoa(int(j.page.Shape.Limit / time.Minute))
	case name == "timelimitraw":
		return "UNLIMITED"
	case name == "suspended":
		return "00:00:00"
	case name == "maxrss" && j.Peak > 0:
		return strconv.FormatInt(j.Peak>>10, 10) + "K"
	case name == "totalcpu":
		return cpuTime(j.User + j.System)
	case name == "usercpu":
		return cpuTime(j.User)
	case name == "systemcpu":
		return cpuTime(j.System)
	}
	return ""
}
