package spec

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Batch holds the options of sbatch beyond srun's.
type Batch struct {
	Wrap      string // --wrap: the script itself
	Wrapped   bool
	Array     []int32 // --array, in the order given
	ArrayMost int32   // jobs of the array at a time; 0 no bound
	Parsable  bool
	NoRequeue bool
	UserEnv   bool // --get-user-env
	// How long the shell of UserEnv may take, and whether the shell is none of a login.
	UserEnvWait  time.Duration
	UserEnvPlain bool
	// --signal is for the script alone (B:), not for the steps.
	WarnScript bool
	Wait       bool
	Partition  string
	Account    string
	Comment    string
	// Further names that the shims show.
	QOS, WCKey, Reservation string
	Input                   string // -i: the script's standard input
}

// maxArray bounds an array, like Slurm's MaxArraySize.
const maxArray = 10001

// SbatchTable has every option of sbatch.
var SbatchTable = sync.OnceValue(func() Table {
	return join(
		same("", `ntasks nodes cpus-per-task ntasks-per-node distribution nodelist exclude overcommit mem mem-per-cpu gpus gpus-per-node gpus-per-task
			output error open-mode chdir job-name time no-kill requeue export quiet`),
		same("labels of nodes: filch up --label", "constraint"),
		acts("gpu:[KIND:]N, as --gpus-per-node; other kinds are refused", "gres=LIST", setGres),
		acts("indices below 10001; %N: at most N jobs of the array at a time", "a,array=LIST[%N]", func(r *Run, v string) (err error) {
			r.Client.Batch.Array, r.Client.Batch.ArrayMost, err = Indices(v)
			return err
		}),
		acts("filch release starts the job", "H,hold", func(r *Run, _ string) error { r.Client.Hold = true; return nil }),
		acts("", "parsable", func(r *Run, _ string) error { r.Client.Batch.Parsable = true; return nil }),
		acts("", "W,wait", func(r *Run, _ string) error { r.Client.Batch.Wait = true; return nil }),
		acts("", "wrap=COMMAND", func(r *Run, v string) error {
			r.Client.Batch.Wrap, r.Client.Batch.Wrapped = v, true
			return nil
		}),
		acts("user and mcs count as a whole node", "exclusive[=user|mcs]", func(r *Run, _ string) error { r.Request.Shape.Exclusive = true; return nil }),
		acts("without B: to the steps, with B: to the script", "signal=[B:]SIG[@SEC]", func(r *Run, v string) (err error) {
			prefix, _, prefixed := strings.Cut(v, ":")
			r.Client.Batch.WarnScript = prefixed && strings.ContainsAny(prefix, "Bb")
			r.Request.Policy.WarnSig, r.Request.Policy.WarnTime, err = Warning(v)
			return err
		}),
		batchWords("any name; squeue, sacct and scontrol show the name", map[string]func(*Batch) *string{
			"A,account=NAME":   func(b *Batch) *string { return &b.Account },
			"p,partition=NAME": func(b *Batch) *string { return &b.Partition },
			"q,qos=NAME":       func(b *Batch) *string { return &b.QOS },
			"comment=TEXT":     func(b *Batch) *string { return &b.Comment },
			"wckey=KEY":        func(b *Batch) *string { return &b.WCKey },
			"reservation=NAME": func(b *Batch) *string { return &b.Reservation },
		}),
		batchWords("", map[string]func(*Batch) *string{"i,input=FILE": func(b *Batch) *string { return &b.Input }}),
		acts("a file of node names, as --nodelist", "F,nodefile=FILE", func(r *Run, v string) error {
			if !strings.Contains(v, "/") {
				v = "./" + v
			}
			r.Client.Only = v
			return filled(v)
		}),
		acts("[SECONDS][L|S]: the variables of a login, or with S of another shell, that sbatch does not have", "get-user-env[=TIME]", setUserEnv),
		acts("ALL, NONE, or names of soft limits", "propagate[=LIMITS]", setPropagate),
		acts("scontrol requeue refuses the job", "no-requeue", func(r *Run, _ string) error {
			r.Client.Batch.NoRequeue, r.Request.Policy.Requeue = true, false
			return nil
		}),
		acts("NONE", "mail-type=TYPES", setMail),
		rows(Done, "sbatch of filch has no more to tell", "v,verbose"),
		rows(Done, "without: #PBS and #BSUB lines are said, and refused in a script without #SBATCH lines", "ignore-pbs"),
		rows(Done, "filch always does so", "wait-all-nodes=0|1 use-min-nodes s,oversubscribe"),
		rows(Said, "filch sends no mail", "mail-user=USER"),
		acts("as --priority of filch run with the sign turned; TOP is the highest, 0 holds the job", "priority=N", setPriority),
		acts("as --priority of filch run; without N 100", "nice[=N]", func(r *Run, v string) error {
			if v == "-" { // no value
				v = "100"
			}
			return setNice(r, v)
		}),
		acts("as --dep of filch run; a job alone means afterany, and aftercorr is for an array of the same indices", "d,dependency=LIST", func(r *Run, v string) (err error) {
			r.Client.Deps, err = readSlurmDeps(v)
			return err
		}),
		acts("", "b,begin=TIME", func(r *Run, v string) (err error) {
			r.Request.Before.Begin, err = ReadBegin(v, time.Now())
			return err
		}),
		rows(Done, "a job whose dependency cannot be met ends at once, as skipped", "kill-on-invalid-dep=yes|no"),
		rows(Said, "jobs start in the order of submission", "delay-boot=MINUTES time-min=LIMIT"),
		rows(Said, "no data of this kind are collected", "acctg-freq=LIST profile=TYPES mcs-label=LABEL"),
		rows(Said, "a wish about nodes that filch does not know", "switches=N spread-job contiguous prefer=LIST power=FLAGS"),
		rows(Refused, "submit the job at that time", "deadline=TIME"),
		rows(Refused, "run the container program in the script", "container=BUNDLE"),
		rows(Refused, "name nodes with -w", "cluster-constraint=LIST batch=LIST"),
		rows(Refused, "use filch run --resource", "L,licenses=LIST"),
		rows(Refused, "bind in the script, with srun --cpu-bind", `mem-bind=TYPE gpu-bind=TYPE hint=TYPE threads-per-core=N cores-per-socket=N sockets-per-node=N
			B,extra-node-info=S:C:T ntasks-per-core=N ntasks-per-socket=N mincpus=N S,core-spec=N thread-spec=N`),
		rows(Refused, "use --gpus-per-task", "gpus-per-socket=N gres-flags=TYPE cpus-per-gpu=N mem-per-gpu=SIZE ntasks-per-gpu=N"),
		rows(Refused, "filch does not set frequencies", "cpu-freq=RANGE gpu-freq=VALUE"),
		rows(Refused, "filch does not set up nodes or networks", "network=TYPE reboot bb=SPEC bbf=FILE tmp=SIZE"),
		rows(Refused, "use --export", "export-file=FILE"),
		rows(Refused, "an instance has one user and one cluster", "M,clusters=NAMES uid=USER gid=GROUP"),
		rows(Refused, "filch explain tells when a job can start", "test-only"),
		rows(Left, "the text of sbatch", "h,help usage V,version"),
	)
})

// batchWords are options whose values are kept for the page of the job.
func batchWords(note string, words map[string]func(*Batch) *string) Table {
	var t Table
	for _, word := range slices.Sorted(maps.Keys(words)) {
		of := words[word]
		t = append(t, acts(note, word, func(r *Run, v string) error { *of(&r.Client.Batch) = v; return nil })...)
	}
	return t
}

func setMail(r *Run, v string) error {
	if !strings.EqualFold(v, "NONE") {
		r.Client.Said = append(r.Client.Said, "filch does not do --mail-type: filch sends no mail")
	}
	return nil
}

// sbatchOptions lists the variables that sbatch takes for options.
const sbatchOptions = `
	SBATCH_ACCOUNT account  SBATCH_ACCTG_FREQ acctg-freq  SBATCH_ARRAY_INX array  SBATCH_BATCH batch  SBATCH_CLUSTERS clusters  SLURM_CLUSTERS clusters
	SBATCH_CONSTRAINT constraint  SBATCH_CONTAINER container  SBATCH_CORE_SPEC core-spec  SBATCH_CPUS_PER_GPU cpus-per-gpu  SBATCH_DEBUG verbose
	SBATCH_DELAY_BOOT delay-boot  SBATCH_DISTRIBUTION distribution  SBATCH_ERROR error  SBATCH_EXCLUSIVE exclusive  SBATCH_EXPORT export
	SBATCH_GET_USER_ENV get-user-env  SBATCH_GPU_BIND gpu-bind  SBATCH_GPU_FREQ gpu-freq  SBATCH_GPUS gpus  SBATCH_GPUS_PER_NODE gpus-per-node
	SBATCH_GPUS_PER_TASK gpus-per-task  SBATCH_GRES gres  SBATCH_GRES_FLAGS gres-flags  SBATCH_HINT hint  SLURM_HINT hint
	SBATCH_IGNORE_PBS ignore-pbs  SBATCH_INPUT input  SBATCH_JOB_NAME job-name  SBATCH_MEM_BIND mem-bind  SBATCH_MEM_PER_CPU mem-per-cpu
	SBATCH_MEM_PER_GPU mem-per-gpu  SBATCH_MEM_PER_NODE mem  SBATCH_NETWORK network  SBATCH_NO_KILL no-kill  SBATCH_NO_REQUEUE no-requeue
	SBATCH_OPEN_MODE open-mode  SBATCH_OUTPUT output  SBATCH_OVERCOMMIT overcommit  SBATCH_PARTITION partition  SBATCH_POWER power
	SBATCH_PROFILE profile  SBATCH_QOS qos  SBATCH_REQ_SWITCH switches  SBATCH_REQUEUE requeue  SBATCH_RESERVATION reservation
	SBATCH_SIGNAL signal  SBATCH_SPREAD_JOB spread-job  SBATCH_THREAD_SPEC thread-spec  SBATCH_THREADS_PER_CORE threads-per-core
	SBATCH_TIMELIMIT time  SBATCH_USE_MIN_NODES use-min-nodes  SBATCH_WAIT wait  SBATCH_WAIT_ALL_NODES wait-all-nodes  SBATCH_WCKEY wckey`

// sbatchSpecial are the variables with a rule of their own.
var sbatchSpecial = []Variable{
	{"SLURM_EXIT_ERROR", "", Done, ""},
	{"SLURM_UMASK", "", Done, "files get the umask of sbatch itself"},
	{"SLURM_CONF", "", Done, "for a real sbatch only: filch has no slurm.conf"},
	{"SLURM_DEBUG_FLAGS", "", Done, "for a real sbatch only: filch has no parts of these names"},
	{"SBATCH_WAIT4SWITCH", "", Done, "with SBATCH_REQ_SWITCH"},
	{"SLURM_STEP_KILLED_MSG_NODE_ID", "", Said, "the node where a step was started prints the ends"},
}

// SbatchVariables lists the variables that sbatch reads.
func SbatchVariables() []Variable { return Variables(SbatchTable(), sbatchOptions, sbatchSpecial) }

// sbatchEnviron applies the variables of sbatch, which give way to the command line and have
// precedence over directives.
func (r *Run) sbatchEnviron(env func(string) string) error {
	for _, v := range SbatchVariables() {
		value := env(v.Name)
		switch {
		case value == "" || v.Option != "" && r.isGiven(v.Option):
		case v.Option != "":
			o, err := SbatchTable().find(v.Option)
			if err == nil && (o.Arg != "" || value != "0") {
				err = r.Set(o, value)
			}
			if err != nil {
				return invalid("%s: %v", v.Name, err)
			}
		case v.Fate == Said:
			r.Client.Said = append(r.Client.Said, "filch does not do "+v.Name+": "+v.Note)
		}
	}
	return nil
}

// ParseSbatch reads the words behind sbatch, and the variables of sbatch. [Run.Directives] applies directives once
// the script is known.
func ParseSbatch(args []string, env func(string) string) (*Run, error) {
	r := newRun()
	var err error
	if r.Argv, err = SbatchTable().scan(args, r.Set); err != nil {
		return r, err
	}
	if len(r.Argv) > 0 && r.Argv[0] == ":" {
		return r, noHetJobs()
	}
	err = r.sbatchEnviron(env)
	r.Order.Slurm, r.Client.Srun = &launcher.Slurm{Script: true}, true
	r.Request.Detach = true
	return r, err
}

// Directives applies the #SBATCH lines of a script, up to the first command. The
// command line has precedence over directives.
func (r *Run) Directives(script string) error {
	told := r.given
	lines, err := ReadDirectives(script, "#SBATCH")
	if err != nil {
		return err
	}
	for _, d := range lines {
		if err := d.scan(func(o *Option, v string) error {
			if slices.Contains(told, o.Name) {
				return nil
			}
			return r.Set(o, v)
		}); err != nil {
			return err
		}
	}
	return r.foreignDirectives(script, len(lines) > 0)
}

// scan reads the options of a line, which has no other word.
func (d Directive) scan(set func(*Option, string) error) error {
	rest, err := SbatchTable().scan(d.Words, set)
	switch {
	case err == nil && len(rest) == 0:
		return nil
	case err == nil && (rest[0] == "hetjob" || rest[0] == "packjob"):
		err = noHetJobs()
	case err == nil:
		err = invalid("Invalid directive found in batch script: %s", clip(rest[0]))
	}
	var told *filch.Error
	if errors.As(err, &told) {
		e := *told
		e.Text = "line " + strconv.Itoa(d.Line) + ": " + e.Text
		return &e
	}
	return err
}

// noHetJobs is the refusal of a heterogeneous job: a job of several parts.
func noHetJobs() error {
	return invalid("filch does not do heterogeneous jobs").WithHint("submit each part as a job; srun a : b starts several programs in one job")
}

// foreignDirectives tells of lines of other batch systems, which sbatch reads unless
// --ignore-pbs forbids that. A script without #SBATCH depends on these lines, and is refused.
func (r *Run) foreignDirectives(script string, ours bool) error {
	for _, mark := range []string{"#PBS", "#BSUB"} {
		lines, err := ReadDirectives(script, mark)
		switch {
		case r.isGiven("ignore-pbs") || err == nil && len(lines) == 0:
		case ours:
			r.Client.Said = append(r.Client.Said, "filch does not read the "+mark+" lines of the script")
		default:
			return invalid("filch does not read the %s lines of the script", mark).WithHint("write them as #SBATCH lines, or ignore them with --ignore-pbs")
		}
	}
	return nil
}

// Directive is a line of a script, counted from 1, and the words behind its mark.
type Directive struct {
	Line  int
	Words []string
}

// ReadDirectives returns the lines of a script that begin with mark, like #SBATCH, up to the
// first command.
func ReadDirectives(script, mark string) ([]Directive, error) {
	var all []Directive
	at := 0
	for line := range strings.Lines(script) {
		line, at = strings.TrimSpace(line), at+1
		rest, ours := strings.CutPrefix(line, mark)
		switch {
		case ours && rest != "" && (rest[0] == ' ' || rest[0] == '\t'):
			words, err := SplitWords(rest)
			if err != nil {
				return nil, invalid("line %d: %s in a line of %s", at, err.Error(), mark)
			}
			all = append(all, Directive{at, words})
		case line == "" || line[0] == '#':
		default:
			return all, nil
		}
	}
	return all, nil
}

// SbatchDirective is an option of an #SBATCH line.
type SbatchDirective struct {
	Line        int
	Name, Value string // Value is "true" of an option without a value
	Idle        bool   // filch does not need the option
}

// SbatchDirectives returns the options of the #SBATCH lines of a script.
func SbatchDirectives(script string) (all []SbatchDirective, err error) {
	lines, err := ReadDirectives(script, "#SBATCH")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		err := line.scan(func(o *Option, v string) error {
			d := SbatchDirective{Line: line.Line, Name: o.Name, Value: v}
			if o.Arg == "" {
				d.Value = "true"
			}
			switch o.Name {
			case "partition", "account", "comment", "qos", "wckey", "reservation", "mail-type", "parsable", "requeue", "no-requeue", "ntasks", "nodes", "ntasks-per-node":
				r := newRun()
				if err := r.Set(o, v); err != nil {
					return err
				}
				d.Idle = r.Request.Shape.Ranks <= 1 && r.Request.Shape.MaxNodes <= 1 && r.Request.Shape.PerNode <= 1
			case "propagate":
				d.Idle = v == "-" || strings.EqualFold(v, "ALL")
			default:
				d.Idle = o.idle && (o.Fate == Done || o.Fate == Said)
			}
			all = append(all, d)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SplitWords splits s as a shell would, with quotes but without expansion; a word that
// begins with # ends the line.
func SplitWords(s string) ([]string, error) {
	var words []string
	var b strings.Builder
	var quote byte
	in := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, in = c, true
		case quote != '\'' && c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
			in = true
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
		case quote == 0 && c == '#' && !in:
			return words, nil
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, invalid("a quote without its end")
	}
	if in {
		words = append(words, b.String())
	}
	return words, nil
}

// Indices reads the value of --array: 1,3,5-9:2, with %N how many jobs of the array may run
// at a time; most is 0 without a bound.
func Indices(s string) (all []int32, most int32, err error) {
	whole := s
	s, bound, bounded := strings.Cut(s, "%")
	if bounded {
		if most, err = Positive(bound); err != nil {
			return nil, 0, invalid("%s does not say behind %% how many jobs may run at a time", clip(whole))
		}
	}
	seen := map[int32]bool{}
	for part := range strings.SplitSeq(s, ",") {
		span, by, stepped := strings.Cut(part, ":")
		low, high, ranged := strings.Cut(span, "-")
		first, err := strconv.ParseUint(low, 10, 31)
		last, step := first, uint64(1)
		if err == nil && ranged {
			last, err = strconv.ParseUint(high, 10, 31)
		}
		if err == nil && stepped {
			step, err = strconv.ParseUint(by, 10, 31)
		}
		if err != nil || last < first || step == 0 || last >= maxArray {
			return nil, 0, invalid("%s is not a list of indices below %d", clip(whole), maxArray)
		}
		for i := first; i <= last; i += step {
			if !seen[int32(i)] {
				seen[int32(i)] = true
				all = append(all, int32(i))
			}
		}
	}
	return all, most, nil
}
