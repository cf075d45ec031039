package cli

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/spf13/pflag"
)

// notEmpty refuses options that were given without text, as a shell does with an
// unset variable: a command without these options would run something else.
func notEmpty(given *pflag.FlagSet) (err error) {
	given.Visit(func(o *pflag.Flag) {
		if err == nil && o.Value.Type() == "string" && o.Value.String() == "" {
			err = ui.Misused(filch.Errorf(filch.Invalid, "--%s is empty", o.Name).WithHint("a shell variable in the command may be unset"))
		}
	})
	return err
}

// Synonyms lets users write options by their other names, as in filch run:
// [spec.Synonym]. Help shows the name that the command declares.
func Synonyms(p *pflag.FlagSet) {
	declared := map[string]bool{}
	p.VisitAll(func(o *pflag.Flag) { declared[o.Name] = true })
	p.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if other := spec.Synonym(name); !declared[name] && declared[other] {
			name = other
		}
		return pflag.NormalizedName(name)
	})
}

// timeValue is an option with a time.
type timeValue time.Duration

// TimeVar declares an option whose value [filch.ReadTime] reads.
func TimeVar(p *pflag.FlagSet, to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	p.Var((*timeValue)(to), name, usage)
}

func (t *timeValue) Set(s string) error {
	d, err := filch.ReadTime(s)
	if err == nil {
		*t = timeValue(d)
	}
	return err
}

func (t *timeValue) Type() string { return "time" }

func (t *timeValue) String() string {
	if *t == 0 {
		return ""
	}
	return filch.ShortTime(time.Duration(*t))
}
