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
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

const (
	squeueFormat = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	squeueLong   = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	noSuchJob    = "slurm_load_jobs error: Invalid job id specified"
)

// squeueMain is squeue.
func squeueMain(args []string) int {
	q, err := readQuestion(args, squeueTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	ids := q.ids()
	if len(q.words) > 0 {
		return ui.Fail(filch.Errorf(filch.Invalid, "Unrecognized option: %s", ui.Clean(q.words[0])))
	}
	jobs, c, err := batchJobs(ids)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return absentOr(err)
	}
	jobs = remembered(jobs)
	if len(ids) == 1 && len(jobs) == 0 {
		fmt.Fprintln(os.Stderr, noSuchJob)
		return 1
	}
	if fields, ok := q.get("sort"); ok {
		sortBy(jobs, fields)
	}
	states, given := q.get("states")
	format, ok := q.get("format")
	switch {
	case ok:
	case q.has("long"):
		fmt.Println(time.Now().Format(time.ANSIC))
		format = squeueLong
	default:
		format = squeueFormat
	}
	format = knownLetters(format, squeueHeads, "job")
	if !q.has("noheader") {
		fmt.Println(squeueLine(format, func(c byte) string { return squeueHeads[c] }))
	}
	single := q.has("array", "array-unique")
	told := map[filch.JobID]bool{}
	for _, j := range jobs {
		if !given && len(ids) == 0 && !j.active() || !q.keeps(j, states) {
			continue
		}
		id := j.id()
		if j.page.Array > 0 && j.state().short == "PD" && !single {
			if told[j.page.Array] {
				continue
			}
			told[j.page.Array] = true
			id = j.page.Array.String() + "_[" + pendingOf(jobs, j.page.Array) + j.most() + "]"
		}
		fmt.Println(squeueLine(format, func(c byte) string { return j.squeueField(c, id) }))
	}
	return 0
}

// most is the end of an array's list of indices: %4.
func (j batchJob) most() string {
	if j.page.Most == 0 {
		return ""
	}
	return "%" + strconv.Itoa(int(j.page.Most))
}

// minJobAge is how long squeue shows a job after its end, Slurm's MinJobAge.
const minJobAge = 300 * time.Second

// remembered are the jobs that squeue knows.
func remembered(jobs []batchJob) []batchJob {
	return slices.DeleteFunc(jobs, func(j batchJob) bool { return j.Code != nil && time.Since(j.ended()) > minJobAge })
}

// absentOr runs the real command if no launcher answers, else fails.
func absentOr(err error) int {
	if cli.IsUnreached(err) {
		return handOn(err.Error())
	}
	return ui.Fail(err)
}

// pendingOf folds the indices of an array's waiting jobs.
func pendingOf(jobs []batchJob, array filch.JobID) string {
	most := int32(-1)
	for _, j := range jobs {
		if j.page.Array == array && j.state().short == "PD" {
			most = max(most, j.page.Index)
		}
	}
	waits := make([]bool, most+1)
	for _, j := range jobs {
		if j.page.Array == array && j.state().short == "PD" {
			waits[j.page.Index] = true
		}
	}
	text, _ := runclient.FoldRanks(waits)
	return text
}

var squeueHeads = map[byte]string{
	'i': "JOBID", 'A': "JOBID", 't': "ST", 'T': "STATE", 'j': "NAME", 'u': "USER", 'U': "UID", 'M': "TIME", 'l': "TIME_LIMIT", 'D': "NODES", 'C': "CPUS",
	'R': "NODELIST(REASON)", 'N': "NODELIST", 'B': "EXEC_HOST", 'r': "REASON", 'P': "PARTITION", 'S': "START_TIME", 'V': "SUBMIT_TIME", 'e': "END_TIME",
	'a': "ACCOUNT", 'F': "ARRAY_JOB_ID", 'K': "ARRAY_TASK_ID", 'Z': "WORK_DIR", 'o': "COMMAND", 'm': "MIN_MEMORY", 'L': "TIME_LEFT", 'Q': "PRIORITY", 'k': "COMMENT",
	'q': "QOS", 'v': "RESERVATION", 'w': "WCKEY", 'b': "TRES_PER_NODE", 'c': "MIN_CPUS", 'd': "MIN_TMP_DISK", 'E': "DEPENDENCY", 'f': "FEATURES", 'g': "GROUP", 'G': "GROUP",
	'h': "OVER_SUBSCRIBE", 'H': "SOCKETS_PER_NODE", 'I': "CORES_PER_SOCKET", 'J': "THREADS_PER_CORE", 'n': "REQ_NODES", 'O': "CONTIGUOUS", 'p': "PRIORITY",
	's': "SELECT_JOBINFO", 'W': "LICENSES", 'x': "EXC_NODES", 'X': "CORE_SPEC", 'y': "NICE", 'Y': "SCHEDNODES", 'z': "S:C:T",
}

// squeueConstants are the fields that have the same value for every job here.
var squeueConstants = map[byte]string{
	'Q': "1", 'p': "0.00000000023283", 'y': "0", 'd': "0", 'E': "(null)", 'h': "NO", 'H': "*", 'I': "*", 'J': "*", 'O': "0", 's': "", 'W': "(null)", 'X': "N/A", 'Y': "(null)",
	'z': "*:*:*", 'n': "", 'x': "",
}

// knownLetters drops the fields of a format that have no letter of heads, after naming each,
// as squeue and sinfo do.
func knownLetters(format string, heads map[byte]string, what string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if b.WriteByte(format[i]); format[i] != '%' {
			continue
		}
		end := i + 1
		for end < len(format) && (format[end] == '.' || format[end] >= '0' && format[end] <= '9') {
			end++
		}
		if end == len(format) {
			break
		}
		if _, known := heads[format[end]]; known {
			continue
		}
		ui.Say("error: Invalid " + what + " format specification: " + ui.Clean(format[end:end+1]))
		whole := b.String()
		b.Reset()
		b.WriteString(whole[:len(whole)-1])
		i = end
	}
	return b.String()
}

// squeueLine fills a format: %[.][WIDTH]LETTER.
func squeueLine(format string, field func(byte) string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		right := format[i] == '.'
		if right {
			i++
		}
		width := 0
		for ; i < len(format) && format[i] >= '0' && format[i] <= '9'; i++ {
			width = min(width*10+int(format[i]-'0'), 4096)
		}
		if i == len(format) {
			break
		}
		b.WriteString(padded(ui.Clean(field(format[i])), width, right))
	}
	return b.String()
}

// padded cuts or fills s to a width; 0 leaves s unchanged.
func padded(s string, width int, right bool) string {
	switch {
	case width == 0:
		return s
	case len(s) > width:
		return s[:width]
	case right:
		return strings.Repeat(" ", width-len(s)) + s
	}
	return s + strings.Repeat(" ", width-len(s))
}

func (j batchJob) squeueField(c byte, id string) string {
	st := j.state()
	nodes := spec.FormatHosts(j.Nodes)
	reason := "None"
	if st.short == "PD" {
		reason, nodes = j.reason(), ""
	}
	switch c {
	case 'i':
		return id
	case 'A':
		return j.ID.String()
	case 't':
		return st.short
	case 'T':
		return st.long
	case 'j':
		return j.Name
	case 'u':
		return cli.UserName()
	case 'U':
		return uid()
	case 'M':
		return clockTime(j.elapsed(), false)
	case 'l':
		return j.limit()
	case 'L':
		return j.timeLeft()
	case 'D':
		return strconv.Itoa(int(max(j.page.Shape.Nodes, int32(len(j.Nodes)))))
	case 'C':
		return strconv.Itoa(int(j.page.Shape.Tasks * j.page.Shape.CPUs))
	case 'R':
		if st.short == "PD" {
			return "(" + reason + ")"
		}
		return nodes
	case 'N':
		return nodes
	case 'B':
		if len(j.Nodes) == 0 {
			return "n/a"
		}
		return string(j.Nodes[0])
	case 'r':
		return reason
	}
	return j.squeueMore(c)
}

func (j batchJob) squeueMore(c byte) string {
	switch c {
	case 'P':
		return j.page.Partition
	case 'S':
		return stamp(j.started(), "N/A")
	case 'V':
		return stamp(j.submitted(), "N/A")
	case 'e':
		return stamp(j.ended(), "N/A")
	case 'a':
		return j.page.Account
	case 'F':
		if j.page.Array > 0 {
			return j.page.Array.String()
		}
		return j.ID.String()
	case 'K':
		if j.page.Array > 0 {
			return strconv.Itoa(int(j.page.Index))
		}
		return "N/A"
	case 'Z':
		return j.page.Dir
	case 'o':
		return j.page.Command
	case 'm':
		return spec.FormatMemory(j.page.Shape.Mem)
	case 'b':
		if n := j.page.Options.GPUsPerNode; n != "" {
			return "gres:gpu:" + n
		}
		return "N/A"
	case 'c':
		return strconv.Itoa(int(j.page.Shape.CPUs))
	case 'f':
		return or(j.page.Labels, "(null)")
	case 'g', 'G':
		return strconv.Itoa(os.Getgid())
	case 'q':
		return j.page.qos()
	case 'v':
		return or(j.page.Reservation, "(null)")
	case 'w':
		return or(j.page.WCKey, "(null)")
	case 'k':
		return or(j.page.Comment, "(null)")
	}
	return squeueConstants[c]
}

// timeLeft is the time until the limit ends the job.
func (j batchJob) timeLeft() string {
	l := j.page.Shape.Limit
	if l == 0 {
		return "UNLIMITED"
	}
	return clockTime(max(l-j.elapsed(), 0), false)
}

func uid() string { return strconv.Itoa(os.Getuid()) }

func (j batchJob) limit() string {
	if l := j.page.Shape.Limit; l > 0 {
		return clockTime(l, false)
	}
	return "UNLIMITED"
}

// scancelMain is scancel.
func scancelMain(args []string) int {
	q, err := readQuestion(args, scancelTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	states, _ := q.get("state")
	if len(q.words) == 0 && !q.has("account", "name", "jobname", "nodelist", "partition", "qos", "reservation", "state", "user", "me", "wckey") {
		return ui.Fail(filch.Errorf(filch.Invalid, "No job identification provided"))
	}
	var ids []string
	for _, w := range q.words {
		for id := range strings.SplitSeq(w, ",") {
			base, _, _ := strings.Cut(id, ".")
			ids = append(ids, base)
		}
	}
	jobs, c, err := batchJobs(ids)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return absentOr(err)
	}
	name, signals := q.get("signal")
	sig := ui.SIGTERM
	if signals {
		if sig, err = spec.Signal(name); err != nil {
			return ui.Fail(err)
		}
	}
	for _, j := range jobs {
		if !j.active() || !q.keeps(j, states) {
			continue
		}
		if signals {
			err = signalBatch(c, q, j.ID, sig)
		} else {
			err = cli.Ask(c, cli.QueryWait, nil, wire.VerbCancel, j.ID.String(), strconv.Itoa(int(sig)))
		}
		if err != nil && ui.KindOf(err) != filch.NotFound {
			return ui.Fail(err)
		}
	}
	return 0
}
