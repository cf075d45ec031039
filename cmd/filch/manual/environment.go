package manual

import (
	"strings"

	"github.com/filch-hpc/filch/launcher/slurmenv"
)

const environmentName = "filch-environment"

// reader says for whom a variable is: a person sets the variable, or filch does.
type reader int

const (
	forCommands  reader = iota // a person sets the variable for commands of filch
	forLaunchers               // a person sets the variable for filch up and filch join
	forPrograms                // filch sets the variable for programs
	forItself                  // filch sets the variable for itself
)

// In says which programs filch starts with a variable of [forPrograms] or [forItself].
type In struct {
	Rank, Task bool // a rank of filch run; a task of filch submit or filch workflow
	Optional   bool // there only in the case that Text names
}

// variable is a variable FILCH_* of the environment.
type variable struct {
	Name string
	For  reader
	In   In
	Text string // one or more sentences
}

var (
	both     = In{Rank: true, Task: true}
	rankOnly = In{Rank: true}
	taskOnly = In{Task: true}
)

// Variables are all variables FILCH_* that filch reads or sets. A test holds the table
// against the code and against the environment of real ranks and tasks.
var Variables = []variable{
	{"FILCH_INSTANCE", forCommands, In{}, "The instance that commands use, like --instance."},
	{"FILCH_NODE", forCommands, In{}, "The node whose launcher commands ask, where several launchers of FILCH_INSTANCE run on one machine."},
	{"FILCH_LOCAL", forCommands, In{}, "A folder on a disk of this node. Launchers keep their sockets, logs, records and kept output in filch-UID in this folder. Without the variable: SLURM_TMPDIR, TMPDIR or /tmp. Commands need the same value as the launchers."},
	{"FILCH_HOME", forCommands, In{}, "The folder of the secret, the addresses and the queue of each instance. Without the variable: ~/.filch."},
	{"FILCH_RSH", forCommands, In{}, "The command, with options, that filch up --hosts uses in place of ssh."},
	{"FILCH_REPLAY_TRACE", forCommands, In{}, "A file to which each task of a replay appends its times and bytes."},
	{"FILCH_LIBPMIX", forCommands, In{}, "The file of libpmix that a job of Open MPI uses. filch run passes the variable on; without the variable, filch searches LD_LIBRARY_PATH and the folders of the system."},
	{"FILCH_SPAWN_WAIT", forCommands, In{}, "How long MPI_Comm_spawn waits for the slots of the new ranks, as in 90s or 5m; then the call fails. filch run passes the variable on. Without the variable: 1m."},
	{"FILCH_FILCHD", forCommands, In{}, "The file of filchd for a filch that was built without one; for developers."},
	{"FILCH_FILCHTOP", forCommands, In{}, "The file of filchtop, the screen of filch top, for a filch that was built without one; for developers."},

	{"FILCH_SLOTS", forLaunchers, In{}, "The setting slots: slots of a node. Without the variable: one for each core."},
	{"FILCH_SPARE", forLaunchers, In{}, "The setting spare: idle keepers, ready for the next launch."},
	{"FILCH_DRAIN_BAD", forLaunchers, In{}, "The setting drain_bad: the failures in a row after which a bad node drains; 0: never."},
	{"FILCH_ROLE", forLaunchers, In{}, "The setting role: the work that a node is for: tasks, gangs or all."},
	{"FILCH_LOG_BYTES", forLaunchers, In{}, "The setting log_bytes: size of a log file of the launcher; two files are kept."},
	{"FILCH_STORE_BYTES", forLaunchers, In{}, "The setting store_bytes: bytes of the shared store on a node."},
	{"FILCH_STEAL_WAIT_MS", forLaunchers, In{}, "The setting steal_wait_ms: the longest wait between tries to steal, in ms."},
	{"FILCH_ENDS_WAIT_MS", forLaunchers, In{}, "The setting ends_wait_ms: the longest time that the end of a task waits to be recorded with others, in ms."},
	{"FILCH_ENDS_BUNDLE", forLaunchers, In{}, "The setting ends_bundle: ends of tasks that are recorded together at most."},
	{"FILCH_OFFER_BUNDLE", forLaunchers, In{}, "The setting offer_bundle: tasks in a message to another node at most."},
	{"FILCH_METRICS", forLaunchers, In{}, "The setting metrics: IP:PORT at which a node serves metrics for Prometheus."},
	{"FILCH_HISTORY", forLaunchers, In{}, "The setting history: with false, the launchers write no ends of jobs to the history on disk."},
	{"FILCH_DEBUG", forLaunchers, In{}, "The setting debug: with true, the log has every message."},

	{"FILCH_JOB", forPrograms, both, "The number of the job. A filch run inside is a step of this job."},
	{"FILCH_INSTANCE", forPrograms, both, "The instance; also for the command of filch up -- COMMAND."},
	{"FILCH_NODE", forPrograms, both, "The node where the program runs."},
	{"FILCH_ATTEMPT", forPrograms, both, "The number of the attempt, from 1: a job that is started again, or a task that is tried again, has the next number. A run that only waited, also while nodes went and came, has still 1."},
	{"FILCH_RANK", forPrograms, rankOnly, "The rank, from 0 to FILCH_SIZE - 1."},
	{"FILCH_SIZE", forPrograms, rankOnly, "The number of ranks of the job."},
	{"FILCH_LOCAL_RANK", forPrograms, rankOnly, "The number of the rank on its node, from 0."},
	{"FILCH_LOCAL_SIZE", forPrograms, rankOnly, "The number of ranks of the job on this node."},
	{"FILCH_NODES", forPrograms, rankOnly, "The number of nodes of the job."},
	{"FILCH_NODELIST", forPrograms, rankOnly, "The nodes of the job in the order of the ranks, like n[1-3,7]."},
	{"FILCH_TASK", forPrograms, taskOnly, "The number of the task: the index of --array, else the position from 0; also for the ranks of a task that is a gang. A worker has the number of its first task."},
	{"FILCH_CPUS_PER_TASK", forPrograms, In{Rank: true, Task: true, Optional: true}, "The number of -c; only with -c. OMP_NUM_THREADS has the same number unless it was set."},
	{"FILCH_TMP", forPrograms, In{Rank: true, Task: true, Optional: true}, "The folder for temporary files of the task, or of the job's ranks on the node, as TMPDIR; only with --private-tmp."},
	{"FILCH_LINE", forPrograms, In{Task: true, Optional: true}, "The line of --each-line or the value of --from-json, for a task with a command that is no worker."},
	{"FILCH_ENDED_JOB", forPrograms, In{Task: true, Optional: true}, "The job that has ended; only for the command of --on-end."},
	{"FILCH_ENDED_NAME", forPrograms, In{Task: true, Optional: true}, "The name of that job."},
	{"FILCH_ENDED_STATE", forPrograms, In{Task: true, Optional: true}, "The state of that job: ok, failed, cancelled and the others of docs/json.md."},
	{"FILCH_ENDED_CODE", forPrograms, In{Task: true, Optional: true}, "The exit code of that job."},
	{"FILCH_GPUS", forPrograms, In{Rank: true, Task: true, Optional: true}, "The GPUs of the rank or the task, with commas; only with --gpus. A step without GPUs of its own uses the GPUs of its job on the node."},

	{"FILCH_IDENT", forItself, both, "Instance, job and attempt: the mark by which a launcher finds the processes of a job that outlived their keeper."},
	{"FILCH_SOCKET", forItself, both, "The socket of the launcher: a mark like FILCH_IDENT."},
	{"FILCH_SLURM_JOB", forItself, In{Rank: true, Task: true, Optional: true}, "The number of the job that SLURM_JOB_ID names: an srun inside is a step of this job. Only with SLURM_*."},
	{"FILCH_RUN", forItself, In{Rank: true, Optional: true}, "The number of the run below a task that is a gang: a filch run inside uses the slots of this run. Only with filch submit -n."},
	{"FILCH_SERIAL", forItself, taskOnly, "The number of the task on its node: a filch run inside uses the slots of this task. A worker does not have the variable."},
	{"FILCH_SECRET", forItself, In{}, "Never set and never read. filch keeps variables that begin with this name out of the environment of ranks and tasks."},
}

// groups are the headlines of the page, with what the variables have in common.
var groups = []struct {
	who         reader
	head, about string
}{
	{forCommands, "Read by commands", "Set these variables for commands of filch. A flag goes before a variable."},
	{forLaunchers, "Settings of launchers", "Set these variables for filch up and filch join: launchers read them when they start. A flag goes before a variable, and a variable before the files of settings; filch config --origin shows the value and the origin of each setting."},
	{forPrograms, "Set for programs", "filch sets these variables for ranks of filch run and for tasks of filch submit and filch workflow run. filch run --slurm-env and the shims of srun and sbatch set SLURM_* in addition. --export and --env choose all other variables."},
	{forItself, "For filch itself", "Programs should not use these variables: they may change in every version."},
}

// aboutSlurm introduces the table of SLURM_*.
const aboutSlurm = "filch sets these variables for scripts of the sbatch shim, for ranks of the srun shim and of filch run --slurm-env, and for tasks of filch submit --slurm-env. The ranks of a gang have the variables of ranks, and the array of their task. A step of a batch job keeps the variables of the job, and has those of a step and of a rank anew."

// inWords says where a variable is set: "ranks, tasks".
func (v *variable) inWords() string {
	var where []string
	if v.In.Rank {
		where = append(where, "ranks")
	}
	if v.In.Task {
		where = append(where, "tasks")
	}
	if len(where) == 0 {
		return "-"
	}
	return strings.Join(where, ", ")
}

func environmentPage() page {
	p := page{Name: environmentName, Number: 7, Short: "variables that filch reads and sets"}
	for _, g := range groups {
		s := section{Head: strings.ToUpper(g.head), Blocks: []block{{Text: g.about}}}
		for i := range Variables {
			if v := &Variables[i]; v.For == g.who {
				term := v.Name
				if v.In.Rank || v.In.Task {
					term += " (" + v.inWords() + ")"
				}
				s.Blocks = append(s.Blocks, block{Term: term, Text: v.Text})
			}
		}
		p.Content = append(p.Content, s)
	}
	slurm := section{Head: "SLURM_*", Blocks: []block{{Text: aboutSlurm}}}
	for _, v := range slurmenv.Variables {
		slurm.Blocks = append(slurm.Blocks, block{Term: v.Name + " (" + v.In.String() + ")", Text: v.Sentence()})
	}
	p.Content = append(p.Content, slurm)
	p.Content = append(p.Content, section{Head: "SEE ALSO", Blocks: []block{{Text: "filch(1), filch-config(1), filch-run(1), filch-submit(1)"}}})
	return p
}
