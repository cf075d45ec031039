package shims

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// askOptions lists the variables that Slurm's commands take for options, by command.
var askOptions = map[string]string{
	"squeue": `SQUEUE_ACCOUNT account  SQUEUE_ALL all  SQUEUE_ARRAY array  SQUEUE_FEDERATION federation  SQUEUE_FORMAT format  SQUEUE_FORMAT2 Format
		SQUEUE_LICENSES licenses  SQUEUE_LOCAL local  SQUEUE_NAMES name  SQUEUE_PARTITION partition  SQUEUE_PRIORITY priority  SQUEUE_QOS qos
		SQUEUE_SIBLING sibling  SQUEUE_SORT sort  SQUEUE_STATES states  SQUEUE_USERS user  SLURM_CLUSTERS clusters`,
	"sacct": `SACCT_FEDERATION federation  SACCT_LOCAL local`,
	"scancel": `SCANCEL_ACCOUNT account  SCANCEL_BATCH batch  SCANCEL_CTLD ctld  SCANCEL_FULL full  SCANCEL_HURRY hurry  SCANCEL_INTERACTIVE interactive
		SCANCEL_NAME name  SCANCEL_PARTITION partition  SCANCEL_QOS qos  SCANCEL_STATE state  SCANCEL_USER user  SCANCEL_VERBOSE verbose
		SCANCEL_WCKEY wckey  SLURM_CLUSTERS clusters`,
	"scontrol": `SCONTROL_ALL all  SCONTROL_FEDERATION federation  SCONTROL_FUTURE future  SCONTROL_LOCAL local  SCONTROL_SIBLING sibling
		SLURM_CLUSTERS clusters`,
	"sinfo": `SINFO_ALL all  SINFO_FEDERATION federation  SINFO_FORMAT format  SINFO_FORMAT2 Format  SINFO_LOCAL local  SINFO_PARTITION partition
		SINFO_SORT sort  SLURM_CLUSTERS clusters`,
}

// timeFormat is the variable with the form of times.
const timeFormat = "SLURM_TIME_FORMAT"

// askSpecial are the variables with a rule of their own, by command.
var askSpecial = map[string][]spec.Variable{
	"squeue":   {asTimes, noConf, noParts, noBits},
	"sacct":    {asTimes, noConf, noParts, noBits},
	"scancel":  {noConf, noParts},
	"scontrol": {asTimes, noConf, noParts, noBits, {Name: "SLURM_CONF_OUT", Note: ofReal}, {Name: "SLURM_TOPO_LEN", Note: "filch has no switches"}},
	"sinfo":    {asTimes, noConf, noParts},
	"sacctmgr": {noConf, noParts},
}

const ofReal = "for the real command only: filch has no slurm.conf"

var (
	asTimes = spec.Variable{Name: timeFormat, Note: "standard, or the conversions %Y %y %m %d %H %M %S %j %b %a %p %I %e %F %T %R %D %s %z; relative and others are said"}
	noConf  = spec.Variable{Name: "SLURM_CONF", Note: ofReal}
	noParts = spec.Variable{Name: "SLURM_DEBUG_FLAGS", Note: "for the real command only: filch has no parts of these names"}
	noBits  = spec.Variable{Name: "SLURM_BITSTR_LEN", Note: "filch never shortens a list"}
)

// askVariables lists the variables that a command reads.
func askVariables(program string, table spec.Table) []spec.Variable {
	all := spec.Variables(table, askOptions[program], askSpecial[program])
	for i := range all {
		if all[i].Fate == spec.Refused { // the call goes on without
			all[i].Fate = spec.Said
		}
	}
	return all
}

// environ applies the variables of the command to the options that the command line leaves
// open. A variable that filch does not do is named, and the call goes on.
func (q *question) environ(program string, table spec.Table, env func(string) string) {
	for _, v := range askVariables(program, table) {
		value := env(v.Name)
		switch {
		case value == "" || v.Option != "" && q.has(v.Option):
		case v.Fate == spec.Said || v.Option == "clusters" && value != "all" && value != batchHome:
			ui.Warn("filch does not do " + v.Name + ": " + v.Note)
		case v.Option != "":
			at := slices.IndexFunc(table, func(o spec.Option) bool { return o.Name == v.Option })
			if table[at].Arg != "" || !switchedOff(value) {
				q.set[v.Option] = value
			}
		case v.Name == timeFormat:
			if _, ok := formTime(value, time.Time{}); !ok {
				ui.Warn("filch does not do " + v.Name + "=" + ui.Clean(value) + ": times have the standard form")
			}
		}
	}
}

// switchedOff reports whether the value of a variable switches an option off.
func switchedOff(v string) bool {
	switch strings.ToLower(v) {
	case "0", "f", "false", "n", "no":
		return true
	}
	return false
}

// timeLetters are the forms of the conversions of strftime.
var timeLetters = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'j': "002", 'b': "Jan", 'a': "Mon", 'p': "PM", 'I': "03", 'e': "_2",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'z': "-0700",
}

// formTime writes a time by a form of [timeFormat]; ok is false for a form that filch does
// not do.
func formTime(form string, t time.Time) (text string, ok bool) {
	if form == "" || form == "standard" {
		return t.Format("2006-01-02T15:04:05"), true
	}
	if !strings.Contains(form, "%") {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(form); i++ {
		if form[i] != '%' {
			b.WriteByte(form[i])
			continue
		}
		if i++; i == len(form) {
			return "", false
		}
		switch letter := form[i]; {
		case letter == '%':
			b.WriteByte('%')
		case letter == 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case timeLetters[letter] != "":
			b.WriteString(t.Format(timeLetters[letter]))
		default:
			return "", false
		}
	}
	return b.String(), true
}
