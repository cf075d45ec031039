package shims

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

func sacctmgrTable() spec.Table {
	return tableOf(
		spec.Rows(spec.Done, "", "n,noheader p,parsable P,parsable2 s,associations"),
		common("h,help", "i,immediate o,oneliner Q,quiet r,readonly"),
	)
}

// entity is a kind of things that sacctmgr lists: the fields of a plain list, and of all
// fields the values for one name.
type entity struct {
	words  []string
	fields []string
	names  func() []string
	value  func(field, name string) string
}

// sacctmgrFields are the fields that have a value here, and further fields of Slurm, whose
// values are empty.
var (
	sacctmgrFields = strings.Fields("Account AdminLevel Cluster DefaultAccount DefaultQOS Description Flags Name Organization Partition Priority QOS Share User")
	sacctmgrBlank  = strings.Fields(`Classification ControlHost ControlPort Coordinators Federation FedState Features GraceTime GrpCPUMins GrpCPURunMins GrpCPUs GrpJobs GrpJobsAccrue
		GrpNodes GrpSubmitJobs GrpTRES GrpTRESMins GrpTRESRunMins GrpWall ID LFT LimitFactor MaxCPUMins MaxCPUMinsPerJob MaxCPUs MaxCPUsPerUser MaxJobs MaxJobsAccruePA
		MaxJobsAccruePU MaxJobsPA MaxJobsPU MaxNodes MaxNodesPerUser MaxSubmitJobs MaxSubmitJobsPA MaxSubmitJobsPU MaxTRES MaxTRESMins MaxTRESPA MaxTRESPerNode
		MaxTRESPerUser MaxTRESPU MaxWall MaxWallDurationPerJob MinTRES NodeCount ParentID ParentName PluginIDSelect Preempt PreemptExemptTime PreemptMode RGT RPC TRES UsageFactor
		UsageThreshold WithCoordinators`)
)

// entities are the things that sacctmgr lists here.
func entities(withAssociations bool) []entity {
	accounts := sync.OnceValue(accounts)
	me := func() []string { return []string{cli.UserName()} }
	users := entity{[]string{"user", "users"}, strings.Fields("User DefaultAccount AdminLevel"), me, func(field, name string) string {
		switch field {
		case "User", "Name":
			return name
		case "DefaultAccount":
			return accounts()[0]
		case "AdminLevel":
			return "None"
		}
		return ""
	}}
	association := func(field, name string) string {
		switch field {
		case "Account", "Name":
			return name
		case "Cluster":
			return batchHome
		case "User":
			return cli.UserName()
		case "QOS":
			return strings.Join(qualities(), ",")
		case "DefaultAccount":
			return accounts()[0]
		case "AdminLevel":
			return "None"
		case "Share", "Priority":
			return "1"
		case "Description", "Organization":
			return name
		}
		return ""
	}
	all := strings.Fields("Cluster Account User Partition Share QOS DefaultQOS")
	if withAssociations {
		users.fields, users.names, users.value = append(users.fields, all...), accounts, association
	}
	return []entity{
		users,
		{[]string{"account", "accounts"}, strings.Fields("Account Description Organization"), accounts, association},
		{[]string{"association", "associations"}, all, accounts, association},
		{[]string{"cluster", "clusters"}, strings.Fields("Cluster ControlHost ControlPort Share QOS"), func() []string { return []string{batchHome} }, func(field, name string) string {
			if field == "Name" {
				field = "Cluster"
			}
			if field == "Cluster" || field == "QOS" || field == "Share" {
				return association(field, name)
			}
			return ""
		}},
		{[]string{"qos"}, strings.Fields("Name Priority Flags"), qualities, func(field, name string) string {
			return map[string]string{"Name": name, "Priority": "0"}[field]
		}},
	}
}

// sacctmgrMain is sacctmgr, as far as it lists users, accounts, qualities of service and the
// cluster.
func sacctmgrMain(args []string) int {
	q, err := readQuestion(args, sacctmgrTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	words := q.words
	if len(words) < 2 || words[0] != "list" && words[0] != "show" {
		return handOn("filch does not do sacctmgr " + ui.Clean(strings.Join(args, " ")))
	}
	l := listing{associations: q.has("associations")}
	if err := l.read(words[2:]); err != nil {
		return ui.Fail(err)
	}
	i := slices.IndexFunc(entities(false), func(e entity) bool {
		return slices.ContainsFunc(e.words, func(w string) bool {
			return len(words[1]) > 1 && strings.HasPrefix(w, strings.ToLower(words[1]))
		})
	})
	if i < 0 {
		return handOn("filch does not do sacctmgr " + ui.Clean(strings.Join(words[:2], " ")))
	}
	e := entities(l.associations)[i]
	fields := l.fields
	if len(fields) == 0 {
		fields = e.fields
	}
	row := sacctRows(fields, q.has("parsable"), q.has("parsable2"), "|")
	if !q.has("noheader") {
		row(func(field string) string { return sacctmgrField(field) }, false)
		if !q.has("parsable", "parsable2") {
			row(func(string) string { return "" }, true)
		}
	}
	for _, name := range e.names() {
		value := func(field string) string { return e.value(sacctmgrField(field), name) }
		if l.keeps(value) {
			row(value, false)
		}
	}
	return 0
}

// listing is what a command line asks of a list.
type listing struct {
	associations bool
	fields       []string
	only         map[string][]string // of a field: the values to list
}

// read reads the words behind the entity.
func (l *listing) read(words []string) error {
	l.only = map[string][]string{}
	for _, word := range words {
		key, value, set := strings.Cut(word, "=")
		switch key = strings.ToLower(key); {
		case key == "where", key == "set":
		case strings.HasPrefix(key, "withassoc") && !set:
			l.associations = true
		case !set:
			l.only["Name"] = append(l.only["Name"], strings.Split(word, ",")...)
		case key == "format", key == "formats":
			for f := range strings.SplitSeq(value, ",") {
				name, width, sized := strings.Cut(f, "%")
				known := sacctmgrField(name)
				if known == "" {
					return filch.Errorf(filch.Invalid, "Unknown field '%s'", ui.Clean(name))
				}
				if sized {
					known += "%" + width
				}
				l.fields = append(l.fields, known)
			}
		default:
			known := sacctmgrField(strings.TrimSuffix(key, "s"))
			if key == "qos" {
				known = "QOS"
			}
			if !slices.Contains(sacctmgrFields, known) {
				return filch.Errorf(filch.Invalid, "Unknown condition: %s", ui.Clean(word))
			}
			l.only[known] = append(l.only[known], strings.Split(value, ",")...)
		}
	}
	return nil
}

// keeps reports whether the conditions of a list hold for an entry.
func (l *listing) keeps(value func(string) string) bool {
	for field, values := range l.only {
		own := value(field)
		if field == "Name" && value("User") != "" && !slices.Contains(values, own) {
			own = value("User")
		}
		if !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(strings.Split(own, ","), v) }) {
			return false
		}
	}
	return true
}

// sacctmgrField is a field by its name or the beginning of its name; "" without such a field.
func sacctmgrField(name string) string {
	if name == "" {
		return ""
	}
	all := append(slices.Clip(sacctmgrFields), sacctmgrBlank...)
	for _, f := range all {
		if strings.EqualFold(f, name) {
			return f
		}
	}
	for _, f := range all {
		if len(f) > len(name) && strings.EqualFold(f[:len(name)], name) {
			return f
		}
	}
	return ""
}

// siteWait bounds the wait for an answer of the site's sacctmgr.
const siteWait = 5 * time.Second

// site asks the site's sacctmgr, if there is one.
func site(words ...string) []string {
	path, err := cli.RealCommand(ui.Self.Name)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), siteWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, append([]string{"-n", "-P"}, words...)...).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// accounts are the names of accounts that a client may use: those of the environment, of
// the batch jobs, of the site, and filch.
func accounts() []string {
	names := []string{os.Getenv("SBATCH_ACCOUNT"), os.Getenv("SLURM_ACCOUNT"), os.Getenv("SLURM_JOB_ACCOUNT")}
	names = append(names, ofJobs(func(p *page) string { return p.Account })...)
	names = append(names, site("list", "associations", "user="+cli.UserName(), "format=account")...)
	return unique(append(names, batchHome))
}

// qualities are the names of qualities of service, found likewise.
func qualities() []string {
	names := []string{os.Getenv("SBATCH_QOS"), os.Getenv("SLURM_QOS"), "normal"}
	return unique(append(append(names, ofJobs((*page).qos)...), site("list", "qos", "format=name")...))
}

// ofJobs are names that batch jobs have.
func ofJobs(name func(*page) string) (names []string) {
	jobs, c, err := batchJobs(nil)
	if c != nil {
		c.Close()
	}
	if err != nil {
		return nil
	}
	for i := range jobs {
		names = append(names, name(&jobs[i].page))
	}
	return names
}

// unique are the names that are not empty, each once.
func unique(names []string) (all []string) {
	for _, n := range names {
		if n != "" && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}
