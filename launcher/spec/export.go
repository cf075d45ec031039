package spec

import (
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

// Export is the rule of --export: which variables of the user's environment the ranks
// receive. The zero value is ALL.
type Export struct {
	None  bool
	Names []string // with None: pass on Names alone
	Sets  []string // NAME=VALUE, on top of the rest
}

// ReadExport reads the value of --export: ALL, NONE, NIL, or names and NAME=VALUE
// separated by commas; ALL may stand among the names. A value with commas stands in
// single or double quotes.
//
// NONE among names changes nothing: names alone pass nothing else.
func ReadExport(s string) (Export, error) { return readExport(s, false) }

// readSrunExport reads the value of srun's --export. In srun, a value that begins with
// NONE passes nothing at all, and quotes are a part of the value.
func readSrunExport(s string) (Export, error) {
	if len(s) >= len("NONE") && strings.EqualFold(s[:len("NONE")], "NONE") {
		return Export{None: true}, nil
	}
	return readExport(s, true)
}

func readExport(s string, quotes bool) (Export, error) {
	e := Export{None: true}
	for s != "" {
		var word string
		word, s = cutExport(s, quotes)
		name, _, sets := strings.Cut(word, "=")
		switch {
		case word == "", strings.EqualFold(word, "NONE"), strings.EqualFold(word, "NIL"):
		case strings.EqualFold(word, "ALL"):
			e.None = false
		case !envName(name):
			return e, invalid("%s is not a variable's name", clip(name))
		case sets:
			e.Sets = append(e.Sets, word)
		default:
			e.Names = append(e.Names, word)
		}
	}
	return e, nil
}

// cutExport cuts s at its first comma outside of quotes; quotes around a value stay with
// quotes, and are dropped otherwise.
func cutExport(s string, quotes bool) (word, rest string) {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			if quote = 0; quotes {
				b.WriteByte(c)
			}
		case quote == 0 && (c == '\'' || c == '"') && i > 0 && s[i-1] == '=' && strings.IndexByte(s[i+1:], c) >= 0:
			if quote = c; quotes {
				b.WriteByte(c)
			}
		case quote == 0 && c == ',':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

func envName(s string) bool {
	return s != "" && strings.IndexByte(s, 0) < 0
}

// setting checks NAME=VALUE.
func setting(s string) error {
	if i := strings.IndexByte(s, '='); i < 1 || strings.IndexByte(s, 0) >= 0 {
		return invalid("%s is not NAME=VALUE", clip(s))
	}
	return nil
}

// foreign lists the prefixes of variables that an outer launcher set for its own ranks;
// passed on, such a variable would mislead our ranks (an MPI library would join the
// outer job). Variables that a user sets to tune a library (OMPI_MCA_btl) are not in
// the list.
var foreign = [...]string{
	"SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "PRTE_", "PALS_", "HYDI_", "HYDRA_", "MPI_LOCAL", "I_MPI_PMI_LIBRARY",
	"OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix=", "OMPI_MCA_schizo=", "FLUX_JOB_", "FLUX_TASK_", "FLUX_URI", "FLUX_PMI_",
}

// own lists the variables that a rank of ours receives with new values. FILCH_TASK is
// not in the list: ranks started by a task need the task's id.
var own = [...]string{"JOB", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE", "NODES", "NODELIST", "ATTEMPT", "INSTANCE", "LAUNCHER", "GPUS", "CPUS_PER_TASK", "SLURM_JOB"}

func scrubbed(name string) bool {
	if rest, ok := strings.CutPrefix(name, "FILCH_"); ok {
		for _, o := range own {
			if rest == o {
				return true
			}
		}
		return false
	}
	for _, p := range foreign {
		if strings.HasPrefix(name+"=", p) {
			return true
		}
	}
	return false
}

// Filter returns the environment of the ranks: env under the rule, without the
// variables of an outer launcher, and in a rank or task with GPUs without the variables that
// name these GPUs. A variable named in the rule always stays.
func (e Export) Filter(env []string) []string {
	lent := hasLentGPUs(env)
	kept := make([]string, 0, len(env)+len(e.Sets))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if e.names(name) || !e.None && !scrubbed(name) && !(lent && filch.IsGPUVariable(name)) {
			if !e.sets(name) {
				kept = append(kept, kv)
			}
		}
	}
	return append(kept, e.Sets...)
}

// hasLentGPUs reports whether filch lent GPUs to the process with this environment.
func hasLentGPUs(env []string) bool { return slurmenv.Lookup(env, "FILCH_GPUS") != "" }

// WithoutGPUs drops the variables that name GPUs lent by filch: another job gets others.
func WithoutGPUs(env []string) []string {
	if !hasLentGPUs(env) {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), filch.IsGPUVariable)
}

func (e Export) names(name string) bool {
	return slices.Contains(e.Names, name)
}

func (e Export) sets(name string) bool {
	for _, s := range e.Sets {
		if len(s) > len(name) && s[len(name)] == '=' && s[:len(name)] == name {
			return true
		}
	}
	return false
}
