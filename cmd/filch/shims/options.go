package shims

import (
	"fmt"
	"strings"
	"sync"

	"github.com/filch-hpc/filch/launcher/spec"
)

// OptionRow is an option of a command that a shim stands for.
type OptionRow struct {
	Option string // all names, and the values
	Fate   spec.Fate
	Note   string
}

// Program is a command with its options.
type Program struct {
	Name    string
	Options []OptionRow
	// Variables that the command reads, with the option of the same meaning.
	Variables []OptionRow
}

// Programs lists the commands that shims stand for, with every option.
func Programs() []Program {
	ask := func(name string, t spec.Table) Program {
		return Program{name, rowsOf(t), rowsOfVariables(askVariables(name, t))}
	}
	all := []Program{
		{"srun", rowsOf(spec.SrunTable()), rowsOfVariables(spec.SrunVariables())},
		{"mpiexec", nil, nil},
		{"sbatch", rowsOf(spec.SbatchTable()), rowsOfVariables(spec.SbatchVariables())},
		ask("squeue", squeueTable()),
		ask("sacct", sacctTable()),
		ask("scancel", scancelTable()),
		ask("scontrol", scontrolTable()),
		ask("sinfo", sinfoTable()),
		ask("sacctmgr", sacctmgrTable()),
	}
	for _, o := range mpiOptions() {
		all[1].Options = append(all[1].Options, OptionRow{o.label(), o.Fate, o.Note})
	}
	return all
}

func rowsOf(t spec.Table) []OptionRow {
	var rows []OptionRow
	for i := range t {
		rows = append(rows, OptionRow{t[i].Label(), t[i].Fate, t[i].Note})
	}
	return rows
}

func rowsOfVariables(list []spec.Variable) []OptionRow {
	var rows []OptionRow
	for _, v := range list {
		name := v.Name
		if v.Option != "" {
			name += ", --" + v.Option
		}
		rows = append(rows, OptionRow{name, v.Fate, v.Note})
	}
	return rows
}

// optionsPage is the tables of docs/shims.md.
func optionsPage() string {
	var b strings.Builder
	for _, p := range Programs() {
		name := "`" + p.Name + "`"
		if p.Name == "mpiexec" {
			name = "`mpiexec`, `mpirun`"
		}
		fmt.Fprintf(&b, "\n### %s\n", name)
		table(&b, "options", p.Options)
		if len(p.Variables) > 0 {
			table(&b, "variables", p.Variables)
		}
	}
	return b.String()
}

// table writes a table with a line for the rows with one fate and one note.
func table(b *strings.Builder, head string, rows []OptionRow) {
	fmt.Fprintf(b, "\n| %s | | |\n|---|---|---|\n", head)
	type kind struct {
		fate spec.Fate
		note string
	}
	var order []kind
	lists := map[kind][]string{}
	for _, o := range rows {
		k := kind{o.Fate, o.Note}
		if lists[k] == nil {
			order = append(order, k)
		}
		lists[k] = append(lists[k], "`"+strings.ReplaceAll(o.Option, "|", "\\|")+"`")
	}
	for _, k := range order {
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.Join(lists[k], " "), k.fate, k.note)
	}
}

// mpiOptions is the table of mpiexec, made once.
var mpiOptions = sync.OnceValue(mpiTable)
