package shims

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// askOption is an option of a query command; valued options have a value.
type askOption struct {
	name   string
	short  byte
	valued bool
}

// askOptions are the options of squeue, sacct, scancel and sinfo together.
var askOptions = []askOption{
	{"noheader", 'h', false},
	{"format", 'o', true},
	{"states", 't', true},
	{"state", 0, true},
	{"user", 'u', true},
	{"users", 0, true},
	{"me", 0, false},
	{"jobs", 'j', true},
	{"job", 0, true},
	{"name", 'n', true},
	{"partition", 'p', true},
	{"array", 'r', false},
	{"only-job-state", 0, false},
	{"clusters", 'M', true},
	{"cluster", 0, true},
	{"sort", 'S', true},
	{"all", 'a', false},
	{"account", 'A', true},
	{"long", 'l', false},
	{"nodes", 0, true},
	{"signal", 's', true},
	{"batch", 'b', false},
	{"full", 'f', false},
	{"quiet", 'Q', false},
	{"verbose", 'v', false},
	{"start", 0, false},
	{"qos", 'q', true},
	{"local", 0, false},
	{"hide", 0, false},
}

// question is a command line of a query command.
type question struct {
	set   map[string]string
	words []string
}

// readQuestion reads a command line; options may stand behind words, as getopt
// allows.
func readQuestion(args []string, more []askOption) (question, error) {
	q := question{set: map[string]string{}}
	all := append(slices.Clone(more), askOptions...)
	find := func(ok func(askOption) bool) (askOption, error) {
		if i := slices.IndexFunc(all, ok); i >= 0 {
			return all[i], nil
		}
		return askOption{}, fmt.Errorf("")
	}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case len(word) < 2 || word[0] != '-':
			q.words = append(q.words, word)
		case strings.HasPrefix(word, "--"):
			name, value, glued := strings.Cut(word[2:], "=")
			o, err := find(func(o askOption) bool { return o.name == name })
			if err != nil {
				return q, filch.Errorf(filch.Invalid, "unrecognized option '--%s'", name)
			}
			if o.valued && !glued {
				if len(args) == 0 {
					return q, filch.Errorf(filch.Invalid, "option '--%s' requires an argument", name)
				}
				value, args = args[0], args[1:]
			}
			q.set[o.name] = value
		default:
			for word = word[1:]; word != ""; {
				c := word[0]
				word = word[1:]
				o, err := find(func(o askOption) bool { return o.short == c })
				if err != nil {
					return q, filch.Errorf(filch.Invalid, "invalid option -- '%c'", c)
				}
				value := ""
				if o.valued {
					if value, word = strings.TrimPrefix(word, "="), ""; value == "" {
						if len(args) == 0 {
							return q, filch.Errorf(filch.Invalid, "option requires an argument -- '%c'", c)
						}
						value, args = args[0], args[1:]
					}
				}
				q.set[o.name] = value
			}
		}
	}
	return q, nil
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

// ids are the jobs asked for.
func (q question) ids() []string {
	list, _ := q.get("jobs", "job")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// keeps reports whether a job passes the filters of name, state and user.
func (q question) keeps(j batchJob, states string) bool {
	if names, ok := q.get("name"); ok && !slices.Contains(strings.Split(names, ","), j.Name) {
		return false
	}
	if users, ok := q.get("user", "users"); ok && !slices.Contains(strings.Split(users, ","), runclient.UserName()) && !slices.Contains(strings.Split(users, ","), strconv.Itoa(os.Getuid())) {
		return false
	}
	if states == "" {
		return true
	}
	for s := range strings.SplitSeq(strings.ToUpper(states), ",") {
		if st := j.state(); s == "ALL" || s == st.long || s == st.short {
			return true
		}
	}
	return false
}

const (
	squeueFormat = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	noSuchJob    = "slurm_load_jobs error: Invalid job id specified"
)

// squeueMain is squeue.
func squeueMain(args []string) int {
	q, err := readQuestion(args, nil)
	if err != nil {
		return ui.Fail(err)
	}
	ids := q.ids()
	jobs, c, err := batchJobs(ids)
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return absentOr(err)
	}
	if len(ids) == 1 && len(jobs) == 0 {
		fmt.Fprintln(os.Stderr, noSuchJob)
		return 1
	}
	states, given := q.get("states", "state")
	format, ok := q.get("format")
	if !ok {
		format = squeueFormat
	}
	if _, ok := q.get("noheader"); !ok {
		fmt.Println(squeueLine(format, func(c byte) string { return squeueHeads[c] }))
	}
	_, single := q.get("array")
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
			id = j.page.Array.String() + "_[" + pendingOf(jobs, j.page.Array) + "]"
		}
		fmt.Println(squeueLine(format, func(c byte) string { return j.squeueField(c, id) }))
	}
	return 0
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
		reason, nodes = "Resources", ""
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
		return runclient.UserName()
	case 'U':
		return strconv.Itoa(os.Getuid())
	case 'M':
		return clockTime(j.elapsed(), false)
	case 'l':
		return j.limit()
	case 'L':
		return "UNLIMITED"
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
	case 'Q':
		return "1"
	}
	return ""
}

func (j batchJob) limit() string {
	if l := j.page.Shape.Limit; l > 0 {
		return clockTime(l, false)
	}
	return "UNLIMITED"
}

// scancelMain is scancel.
func scancelMain(args []string) int {
	q, err := readQuestion(args, nil)
	if err != nil {
		return ui.Fail(err)
	}
	_, byName := q.get("name")
	_, byUser := q.get("user", "users", "me")
	states, byState := q.get("states", "state")
	if len(q.words) == 0 && !byName && !byUser && !byState {
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
	verb, sig := wire.VerbCancel, ui.SIGTERM
	if name, ok := q.get("signal"); ok {
		verb = wire.VerbSignal
		if sig, err = spec.Signal(name); err != nil {
			return ui.Fail(err)
		}
	}
	for _, j := range jobs {
		if j.active() && q.keeps(j, states) {
			if err := cli.Ask(c, cli.QueryWait, nil, verb, j.ID.String(), strconv.Itoa(int(sig))); err != nil && ui.KindOf(err) != filch.NotFound {
				return ui.Fail(err)
			}
		}
	}
	return 0
}
