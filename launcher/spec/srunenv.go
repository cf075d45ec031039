package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// Variable is a variable that a command reads.
type Variable struct {
	Name   string
	Option string // the option with the meaning of the variable; "" none
	Fate   Fate   // of a variable without an option
	Note   string
}

// srunOptions lists the variables that srun takes for options, in the order of application:
// of two variables with a value for the same option, the later counts.
const srunOptions = `
	SLURM_NPROCS ntasks  SLURM_NTASKS ntasks  SLURM_NNODES nodes  SLURM_JOB_NUM_NODES nodes  SLURM_NTASKS_PER_NODE ntasks-per-node
	SLURM_CPUS_PER_TASK cpus-per-task  SRUN_CPUS_PER_TASK cpus-per-task  SLURM_DISTRIBUTION distribution  SLURM_OVERCOMMIT overcommit
	SLURM_EXACT exact  SLURM_EXCLUSIVE exclusive  SLURM_OVERLAP overlap  SLURM_CONSTRAINT constraint
	SLURM_KILL_BAD_EXIT kill-on-bad-exit  SLURM_WAIT wait  SLURM_TIMELIMIT time  SLURM_SIGNAL signal  SLURM_NO_KILL no-kill  SLURM_IMMEDIATE immediate
	SLURM_MPI_TYPE mpi  SLURM_EXPORT_ENV export  SRUN_EXPORT_ENV export  SLURM_REMOTE_CWD chdir  SLURM_WORKING_DIR chdir
	SLURM_OPEN_MODE open-mode  SLURM_LABELIO label  SLURM_UNBUFFEREDIO unbuffered  SLURM_STDINMODE input  SLURM_STDOUTMODE output  SLURM_STDERRMODE error
	SRUN_INPUT input  SRUN_OUTPUT output  SRUN_ERROR error  SLURM_DEBUG verbose  SLURM_DISABLE_STATUS disable-status
	SLURM_BCAST bcast  SLURM_BCAST_EXCLUDE bcast-exclude  SLURM_COMPRESS compress  SLURM_SEND_LIBS send-libs
	SLURM_TASK_PROLOG task-prolog  SLURM_TASK_EPILOG task-epilog  SLURM_PROLOG prolog  SLURM_EPILOG epilog
	SLURM_CPU_BIND cpu-bind  SLURM_MEM_BIND mem-bind  SLURM_GPU_BIND gpu-bind  SLURM_HINT hint  SLURM_CORE_SPEC core-spec  SLURM_THREAD_SPEC thread-spec
	SLURM_THREADS_PER_CORE threads-per-core  SLURM_NTASKS_PER_CORE ntasks-per-core  SLURM_NTASKS_PER_SOCKET ntasks-per-socket
	SLURM_NTASKS_PER_GPU ntasks-per-gpu  SLURM_CPUS_PER_GPU cpus-per-gpu  SLURM_MEM_PER_GPU mem-per-gpu  SLURM_GRES_FLAGS gres-flags
	SLURM_CPU_FREQ_REQ cpu-freq  SLURM_GPU_FREQ gpu-freq  SLURM_NETWORK network  SLURM_RESV_PORTS resv-ports
	SLURM_ACCOUNT account  SLURM_PARTITION partition  SLURM_QOS qos  SLURM_RESERVATION reservation  SLURM_WCKEY wckey  SLURM_BURST_BUFFER bb
	SLURM_DELAY_BOOT delay-boot  SLURM_REQ_SWITCH switches  SLURM_SPREAD_JOB spread-job  SLURM_USE_MIN_NODES use-min-nodes  SLURM_POWER power
	SLURM_ACCTG_FREQ acctg-freq  SLURM_PROFILE profile  SLURM_THREADS threads  SLURMD_DEBUG slurmd-debug
	SLURM_CLUSTERS clusters  SLURM_DEPENDENCY dependency  SRUN_CONTAINER container`

// srunSpecial are the variables with a rule of their own.
var srunSpecial = []Variable{
	{"SLURM_JOB_NAME", "job-name", Done, "outside of an allocation"},
	{"SLURM_MEM_PER_NODE", "mem", Done, "outside of an allocation: a step uses the memory of its job"},
	{"SLURM_MEM_PER_CPU", "mem-per-cpu", Done, "outside of an allocation: a step uses the memory of its job"},
	{"SLURM_JOB_ID", "jobid", Done, "the allocation around"},
	{"SLURM_GPUS_PER_TASK", "gpus-per-task", Done, "without an option for GPUs"},
	{"SLURM_GPUS_PER_NODE", "gpus-per-node", Done, "without an option for GPUs"},
	{"SLURM_STEP_GRES", "gres", Done, "without an option for GPUs"},
	{"SLURM_GRES", "gres", Done, "without an option for GPUs"},
	{"SLURM_GPUS", "gpus", Done, "without an option for GPUs: of each node its part"},
	{"SLURM_DIST_PLANESIZE", "", Done, "the size for SLURM_DISTRIBUTION=plane"},
	{"SLURM_EXIT_ERROR", "", Done, ""},
	{"SLURM_TEST_EXEC", "", Done, "filch always looks for the program on every node before the start"},
	{"SLURM_SRUN_REDUCE_TASK_EXIT_MSG", "", Done, "filch always prints equal ends once"},
	{"SLURM_UMASK", "", Done, "files get the umask of srun itself"},
	{"SLURM_CONF", "", Done, "for a real srun only: filch has no slurm.conf"},
	{"SLURM_DEBUG_FLAGS", "", Done, "for a real srun only: filch has no parts of these names"},
	{"SLURM_WAIT4SWITCH", "", Done, "with SLURM_REQ_SWITCH"},
	{"PMI_FANOUT", "", Done, noPMI},
	{"PMI_FANOUT_OFF_HOST", "", Done, noPMI},
	{"PMI_TIME", "", Done, noPMI},
	{"SLURM_PMI_KVS_NO_DUP_KEYS", "", Done, noPMI},
	{"SLURM_EXIT_IMMEDIATE", "", Said, "the exit code is that of every error"},
	{"SLURM_STEP_KILLED_MSG_NODE_ID", "", Said, "the node where the step was started prints the ends"},
	{"SLURM_HOSTFILE", "", Left, "name nodes with -w"},
}

const noPMI = "for Slurm's PMI only: filch's has nothing to set"

// srunNotes tell when a variable of srunOptions counts, where not always.
var srunNotes = map[string]string{
	"SLURM_CPU_BIND": outsideStep, "SLURM_MEM_BIND": outsideStep,
}

const outsideStep = "outside of a step of Slurm, for whose ranks Slurm sets the variable"

// SrunVariables lists the variables that srun reads: first those with an option, in the order
// of application.
func SrunVariables() []Variable {
	all := Variables(SrunTable(), srunOptions, srunSpecial)
	for i := range all {
		if note := srunNotes[all[i].Name]; note != "" {
			all[i].Note = note
		}
	}
	return all
}

// Variables lists the variables of a command with options t: those of options, a list of
// variables each with its option behind, then the special ones. A variable has the fate of its
// option, and a variable without a note of its own the note, too.
func Variables(t Table, options string, special []Variable) []Variable {
	var all []Variable
	words := strings.Fields(options)
	for i := 0; i+1 < len(words); i += 2 {
		all = append(all, Variable{Name: words[i], Option: words[i+1]})
	}
	all = append(all, special...)
	for i := range all {
		if v := &all[i]; v.Option != "" {
			o, err := t.find(v.Option)
			if err != nil {
				panic(err)
			}
			v.Fate = o.Fate
			if v.Note == "" {
				v.Note = o.Note
			}
		}
	}
	return all
}

// srunEnviron applies the variables, which give way to the command line.
func (r *Run) srunEnviron(env func(string) string) error {
	inside, step := env("SLURM_JOB_ID") != "", env("SLURM_STEP_ID") != ""
	for _, v := range SrunVariables() {
		value := env(v.Name)
		switch {
		case value == "", v.Note == outsideStep && step, v.Option == "jobid":
			continue
		case strings.HasPrefix(v.Note, "outside of an allocation") && inside, strings.HasPrefix(v.Note, "without an option"):
			continue
		case v.Fate == Said:
			r.Client.Said = append(r.Client.Said, "filch does not do "+v.Name+": "+v.Note)
			continue
		}
		if v.Option != "" {
			o, err := SrunTable().find(v.Option)
			if err != nil {
				return err
			}
			if (o.Arg == "" || o.Optional != "" && o.idle) && !switchedOn(value) {
				continue
			}
			if v.Name == "SLURM_DISTRIBUTION" && value == "plane" {
				value += "=" + env("SLURM_DIST_PLANESIZE")
			}
			if err := o.set(r, value); err != nil {
				return invalid("%s: %v", v.Name, err)
			}
			if o.Note == settled && !inside {
				r.meetOutside(o.Name, v.Name)
			}
		}
		if v.Fate == Left {
			r.Client.Foreign, r.Client.Instead = v.Name, v.Note
		}
	}
	return nil
}

// switchedOn reports whether the value of a variable switches an option without a value on.
func switchedOn(v string) bool {
	n, err := strconv.ParseInt(v, 10, 32)
	return strings.EqualFold(v, "yes") || err == nil && n != 0
}

// gpuOptions are srun's options for GPUs.
var gpuOptions = [...]string{"gpus", "gpus-per-node", "gpus-per-task", "gres"}

// inheritGPUs lets a step without an option for GPUs take the GPUs that the job around asked
// for. A number of GPUs in all counts by the node: every rank uses all GPUs of the step on its
// node. A number that cannot be divided is not taken, and the step then uses the GPUs of the
// job beside its other steps.
func (r *Run) inheritGPUs(env func(string) string) error {
	if slices.ContainsFunc(gpuOptions[:], r.isGiven) {
		return nil
	}
	for i := range srunSpecial {
		in := &srunSpecial[i]
		v := env(in.Name)
		if v == "" || !slices.Contains(gpuOptions[:], in.Option) {
			continue
		}
		o, err := SrunTable().find(in.Option)
		if err == nil {
			err = o.set(r, v)
		}
		if err != nil {
			return invalid("%s: %v", in.Name, err)
		}
		if all := r.Client.GPUs; all > 0 {
			r.Client.GPUs = 0
			if nodes := max(r.aroundNodes(env), 1); all%(filch.GPU*nodes) == 0 {
				r.Request.Shape.NodeGPUs = all / nodes
			}
		}
		return nil
	}
	return nil
}

// aroundNodes is the number of nodes of the allocation around; 0 without one.
func (r *Run) aroundNodes(env func(string) string) int32 {
	n, err := Positive(env("SLURM_JOB_NUM_NODES"))
	if err != nil {
		return 0
	}
	return n
}

// meetOutside does outside of an allocation with a settled option what sbatch does, which
// makes an allocation too. word is the option as the user gave it, or the variable.
func (r *Run) meetOutside(option, word string) {
	o, err := SbatchTable().find(option)
	switch {
	case err != nil:
	case o.Name == "hold":
		r.Client.Hold = true
	case o.Name == "nice" || o.Name == "priority":
		r.Client.Said = append(r.Client.Said, "filch does not do "+word+" of srun: sbatch's works, and --priority of filch run")
	case o.Fate == Refused:
		r.Client.Foreign, r.Client.Instead = word, o.Note
	case o.Fate == Said:
		r.Client.Said = append(r.Client.Said, "filch does not do "+word+": "+o.Note)
	}
}
