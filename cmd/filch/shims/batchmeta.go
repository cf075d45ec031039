package shims

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/slurmenv"
	"github.com/filch-hpc/filch/launcher/wire"
)

// sbatch stores the options that the launcher has no use for as a page in a book:
// a file in the instance's home, which all nodes see.

// page describes one job.
type page struct {
	ID        filch.JobID `json:"id"`
	Array     filch.JobID `json:"array,omitempty"` // the id of the job's array
	Index     int32       `json:"index,omitempty"`
	Indices   []int32     `json:"indices,omitempty"`
	Name      string      `json:"name"`
	Script    string      `json:"script"` // path of the script in the book
	Command   string      `json:"command"`
	Args      []string    `json:"args"`
	Dir       string      `json:"dir"`
	Out       string      `json:"out"` // patterns
	Err       string      `json:"err"`
	Partition string      `json:"partition"`
	// The name that --reservation gave.
	Reservation string     `json:"reservation,omitempty"`
	Account     string     `json:"account"`
	QOS         string     `json:"qos,omitempty"`
	WCKey       string     `json:"wckey,omitempty"`
	Comment     string     `json:"comment,omitempty"`
	Labels      string     `json:"labels,omitempty"` // of -C
	In          string     `json:"in,omitempty"`
	Shape       batchShape `json:"shape"`
	Append      bool       `json:"append"`
	Most        int32      `json:"most,omitempty"` // jobs of the array at a time
	NoRequeue   bool       `json:"no_requeue,omitempty"`
	// The signal for the steps before the time limit, and how long before.
	WarnSig  int32         `json:"warn_sig,omitempty"`
	WarnTime time.Duration `json:"warn_time,omitempty"`
	restarts int32         // in a rank of the job
	// For the script's variables.
	Options      slurmenv.Options   `json:"options"`
	Submitter    slurmenv.Submitter `json:"submitter"`
	Login        bool               `json:"login,omitempty"`    // the variables of a login
	UserEnv      bool               `json:"user_env,omitempty"` // the variables of a login that are not set
	UserEnvWait  time.Duration      `json:"user_env_wait,omitempty"`
	UserEnvPlain bool               `json:"user_env_plain,omitempty"`
	Shims        string             `json:"shims,omitempty"` // with Login: the folder of the shims, for PATH
}

// qos is the quality of service of a job; normal without a name.
func (p *page) qos() string { return or(p.QOS, "normal") }

// batchShape is the size of a batch job.
type batchShape struct {
	Tasks int32         `json:"tasks"`
	Nodes int32         `json:"nodes"`
	CPUs  int32         `json:"cpus"` // of a task
	Mem   int64         `json:"mem"`  // bytes per node
	Limit time.Duration `json:"limit"`
}

// The only partition and the only account.
const batchHome = slurmenv.Cluster

func metaDir(instance string) (string, error) {
	home, err := place.HomeOf(instance)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(string(home), "batch")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", filch.Errorf(filch.Invalid, "cannot make %s: %s", dir, ui.Cause(err))
	}
	return dir, nil
}

func pageFile(dir string, id filch.JobID) string { return filepath.Join(dir, id.String()+".json") }

func writePage(dir string, p page) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return place.WritePrivate(pageFile(dir, p.ID), b)
}

func readPage(path string) (page, error) {
	var p page
	b, err := place.ReadPrivate(path)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}

// batchJob is a job with its page, as the shims of Slurm's commands show the job.
type batchJob struct {
	launcher.JobInfo
	page   page
	behind bool // waits for other jobs of its array
}

// batchJobs asks for the jobs with these numbers, or for all batch jobs.
func batchJobs(ids []string) (jobs []batchJob, c *client.Client, err error) {
	if c, err = client.Dial(client.Options{Build: cli.Build}); err != nil {
		return nil, nil, err
	}
	dir, err := metaDir(c.Dir.Instance)
	if err != nil {
		return nil, c, err
	}
	var list []launcher.JobInfo
	if len(ids) == 1 && ui.AllDigits(ids[0]) {
		var j launcher.JobInfo
		if e := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, ids[0]); e == nil {
			list = append(list, j)
		}
		if p, e := readPage(filepath.Join(dir, ids[0]+".json")); e == nil && p.Array > 0 {
			list = nil // an array: all of its jobs
		}
	}
	if list == nil {
		if list, err = cli.QueryJobs(c); err != nil {
			return nil, c, err
		}
	}
	for _, j := range list {
		p, e := readPage(pageFile(dir, j.ID))
		if e != nil {
			continue // not of sbatch
		}
		jobs = append(jobs, batchJob{JobInfo: j, page: p})
	}
	markBehind(jobs)
	slices.SortFunc(jobs, func(a, b batchJob) int { return int(a.ID - b.ID) })
	if len(ids) > 0 {
		jobs = slices.DeleteFunc(jobs, func(j batchJob) bool { return !slices.ContainsFunc(ids, j.is) })
	}
	return jobs, c, nil
}

// markBehind marks the waiting jobs of arrays with as many other jobs as may have slots.
func markBehind(jobs []batchJob) {
	busy := map[filch.JobID]int32{}
	for i := range jobs {
		if j := &jobs[i]; j.page.Most > 0 && j.state().short == "R" {
			busy[j.page.Array]++
		}
	}
	for i := range jobs {
		j := &jobs[i]
		j.behind = j.page.Most > 0 && busy[j.page.Array] >= j.page.Most
	}
}

// reason is why a job waits, in Slurm's words.
func (j batchJob) reason() string {
	switch {
	case j.Held != "":
		return "JobHeldUser"
	case j.behind:
		return "JobArrayTaskLimit"
	case j.Dep != "":
		return "Dependency"
	case j.Begin > time.Now().UnixNano():
		return "BeginTime"
	}
	return "Resources"
}

// is reports whether id means this job: the job's number, the number of its
// array, or ARRAY_INDEX or ARRAY_[INDICES].
func (j batchJob) is(id string) bool {
	array, index, part := strings.Cut(id, "_")
	if !part {
		return id == j.ID.String() || j.page.Array > 0 && id == j.page.Array.String()
	}
	if j.page.Array == 0 || array != j.page.Array.String() {
		return false
	}
	index = strings.TrimSuffix(strings.TrimPrefix(index, "["), "]")
	for span := range strings.SplitSeq(index, ",") {
		low, high, ranged := strings.Cut(span, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && ranged {
			last, err = strconv.Atoi(high)
		}
		if err == nil && int(j.page.Index) >= first && int(j.page.Index) <= last {
			return true
		}
	}
	return false
}

// id is the job's id as Slurm writes it: 7, or 6_0 of an array.
func (j batchJob) id() string {
	if j.page.Array > 0 {
		return j.page.Array.String() + "_" + strconv.Itoa(int(j.page.Index))
	}
	return j.ID.String()
}

// batchState is a state in Slurm's words.
type batchState struct{ long, short string }

func (j batchJob) state() batchState {
	switch {
	case j.Code == nil && (j.State == "waiting" || j.State == "ready"):
		return batchState{"PENDING", "PD"}
	case j.Code == nil:
		return batchState{"RUNNING", "R"}
	case j.State == "ok":
		return batchState{"COMPLETED", "CD"}
	case j.State == "cancelled", j.State == "skipped":
		return batchState{"CANCELLED", "CA"}
	case j.State == "lost":
		return batchState{"NODE_FAIL", "NF"}
	case j.State == "killed" && *j.Code == filch.ExitTimeLimit:
		return batchState{"TIMEOUT", "TO"}
	case j.State == "killed":
		return batchState{"OUT_OF_MEMORY", "OOM"}
	}
	return batchState{"FAILED", "F"}
}

// active reports whether squeue shows the job by default.
func (j batchJob) active() bool { return j.Code == nil }

// exitCode is CODE:SIGNAL.
func (j batchJob) exitCode() string {
	code := 0
	if j.Code != nil {
		code = int(*j.Code)
	}
	switch {
	case j.state().short == "TO", j.state().short == "CA":
		return "0:15"
	case code > filch.ExitSignalBase:
		return "0:" + strconv.Itoa(code-filch.ExitSignalBase)
	}
	return strconv.Itoa(code) + ":0"
}

func (j batchJob) submitted() time.Time { return time.Unix(0, j.Submit) }

// started is zero while the job waits.
func (j batchJob) started() time.Time {
	if j.state().short == "PD" || len(j.Nodes) == 0 {
		return time.Time{}
	}
	return j.submitted().Add(time.Duration(j.Waited * float64(time.Second)))
}

// ended is zero until the job's end.
func (j batchJob) ended() time.Time {
	if j.Code == nil {
		return time.Time{}
	}
	if s := j.started(); !s.IsZero() {
		return s.Add(time.Duration(j.Elapsed * float64(time.Second)))
	}
	return j.submitted()
}

func (j batchJob) elapsed() time.Duration {
	if j.started().IsZero() {
		return 0
	}
	return time.Duration(j.Elapsed * float64(time.Second))
}

// stamp is a time as Slurm writes it.
func stamp(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	if text, ok := formTime(os.Getenv(timeFormat), t); ok {
		return text
	}
	text, _ := formTime("", t)
	return text
}

// clockTime is a duration as squeue writes it, 0:05 or 1-02:03:04.
func clockTime(d time.Duration, always bool) string {
	s := int64(d / time.Second)
	days, h, m, sec := s/86400, s%86400/3600, s%3600/60, s%60
	two := func(n int64) string { return string([]byte{byte('0' + n/10), byte('0' + n%10)}) }
	switch {
	case days > 0:
		return strconv.FormatInt(days, 10) + "-" + two(h) + ":" + two(m) + ":" + two(sec)
	case always:
		return two(h) + ":" + two(m) + ":" + two(sec)
	case h > 0:
		return strconv.FormatInt(h, 10) + ":" + two(m) + ":" + two(sec)
	}
	return strconv.FormatInt(m, 10) + ":" + two(sec)
}
