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
}

// Programs lists the commands that shims stand for, with every option.
func Programs() []Program {
	all := []Program{
		{"srun", rowsOf(spec.SrunTable())},
		{"mpiexec", nil},
		{"sbatch", rowsOf(spec.SbatchTable())},
		{"squeue", rowsOf(squeueTable())},
		{"sacct", rowsOf(sacctTable())},
		{"scancel", rowsOf(scancelTable())},
		{"scontrol", rowsOf(scontrolTable())},
		{"sinfo", rowsOf(sinfoTable())},
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

// optionsPage is the tables of docs/shims.md: a line for the options with one fate and one
// note.
func optionsPage() string {
	var b strings.Builder
	for _, p := range Programs() {
		name := "`" + p.Name + "`"
		if p.Name == "mpiexec" {
			name = "`mpiexec`, `mpirun`"
		}
		fmt.Fprintf(&b, "\n### %s\n\n| options | | |\n|---|---|---|\n", name)
		type kind struct {
			fate spec.Fate
			note string
		}
		var order []kind
		lists := map[kind][]string{}
		for _, o := range p.Options {
			k := kind{o.Fate, o.Note}
			if lists[k] == nil {
				order = append(order, k)
			}
			lists[k] = append(lists[k], "`"+strings.ReplaceAll(o.Option, "|", "\\|")+"`")
		}
		for _, k := range order {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(lists[k], " "), k.fate, k.note)
		}
	}
	return b.String()
}

// mpiOptions is the table of mpiexec, made once.
var mpiOptions = sync.OnceValue(mpiTable)
