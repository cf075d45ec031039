package shims

import (
	"os"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// mpiOption is an option of mpiexec or mpirun, with its other names.
type mpiOption struct {
	names  []string // without dashes: Hydra and Open MPI take one dash or two
	values []string // names of the values
	Fate   spec.Fate
	Note   string
	act    func(l *mpiLine, p *mpiPart, v []string) error // nil changes nothing
	maybe  func(word string) bool                         // the next word is the value; nil always
}

// mpi makes an option of filch run from its names and values: "n np c =N".
func mpi(list string, act func(*mpiLine, *mpiPart, []string) error) mpiOption {
	o := mpiOption{act: act}
	for word := range strings.FieldsSeq(list) {
		if value, is := strings.CutPrefix(word, "="); is {
			o.values = append(o.values, value)
		} else {
			o.names = append(o.names, word)
		}
	}
	return o
}

// mpiAll makes options with one fate and one note, each as for mpi, divided by semicolons.
func mpiAll(fate spec.Fate, note string, lists string) []mpiOption {
	var all []mpiOption
	for list := range strings.SplitSeq(lists, ";") {
		o := mpi(list, nil)
		o.Fate, o.Note = fate, note
		all = append(all, o)
	}
	return all
}

func noted(note string, o mpiOption) mpiOption {
	o.Note = note
	return o
}

// mpiTable has the options of Hydra's mpiexec and of Open MPI's mpirun.
func mpiTable() []mpiOption {
	stdin := noted("ranks (Hydra); without a list of ranks: Open MPI's --preload-binary", mpi("s =RANKS", mpiStdin))
	stdin.maybe = func(word string) bool { return word == "all" || word == "none" || ui.AllDigits(word) }
	all := []mpiOption{
		mpi("n np c =N", func(_ *mpiLine, p *mpiPart, v []string) error { p.ranks = v[0]; return nil }),
		mpi("N ppn npernode perhost =N", func(l *mpiLine, p *mpiPart, v []string) error {
			l.ppn = true
			return passes("--ntasks-per-node=")(l, p, v)
		}), mpi("pernode", func(l *mpiLine, p *mpiPart, v []string) error {
			l.ppn = true
			return passes("--ntasks-per-node=1")(l, p, v)
		}),
		noted("a part with hosts of its own, and different counts behind names, are left", mpi("host H =LIST", func(_ *mpiLine, p *mpiPart, v []string) error { p.host = v[0]; return nil })),
		noted("different counts behind names are left", mpi("hosts =LIST", mpiHosts("-hosts"))),
		noted("different counts behind names are left", mpi("f hostfile machinefile machine-file default-hostfile =FILE", mpiHostFile)),
		noted("a part with a folder of its own is left", mpi("wdir wd =DIR", func(_ *mpiLine, p *mpiPart, v []string) error { p.wdir = v[0]; return nil })),
		mpi("env genv =NAME =VALUE", exported), mpi("x =NAME[=VALUE]", func(_ *mpiLine, p *mpiPart, v []string) error { return mpiX(p, v[0]) }),
		mpi("genvall envall", nil), mpi("genvnone envnone", func(l *mpiLine, _ *mpiPart, _ []string) error { l.none = true; return nil }),
		mpi("genvlist envlist =LIST", mpiEnvList),
		noted("parameters of Open MPI's launcher have nothing to set", mpi("mca gmca =NAME =VALUE", mpiMCA)),
		mpi("prefix =DIR", mpiPrefix), mpi("noprefix", nil),
		mpi("l prepend-rank tag-output", passes("--label")),
		mpi("outfile-pattern =FILE", mpiPattern("--output=")), mpi("errfile-pattern =FILE", mpiPattern("--error=")),
		stdin, mpi("stdin =RANKS", passes("--input=")),
		mpi("preload-binary", passes("--bcast")),
		mpi("oversubscribe", passes("--overcommit")), mpi("nooversubscribe", func(l *mpiLine, _ *mpiPart, _ []string) error { l.packed = true; return nil }),
		mpi("cpus-per-proc cpus-per-rank =N", passes("--cpus-per-task=")), mpi("gpus-per-proc =N", passes("--gpus-per-task=")),
		noted("slot, core, node, ppr:N:node, with pe=N, oversubscribe and nooversubscribe; others are left", mpi("map-by =WAY", mpiMap)),
		noted("N:node; others are left", mpi("ppr =N:UNIT", func(l *mpiLine, p *mpiPart, v []string) error { return mpiMap(l, p, []string{"ppr:" + v[0]}) })),
		noted("slot, core; others are left", mpi("rank-by =WAY", mpiRank)),
		noted("what filch run --cpu-bind does: none, core, hwthread, socket, numa; others are left", mpi("bind-to =WAY", mpiBind)),
		mpi("bind-to-core", passes("--cpu-bind=cores")), mpi("bind-to-socket", passes("--cpu-bind=sockets")),
		mpi("bynode", passes("--distribution=cyclic")), mpi("byslot bycore", passes("--distribution=block")),
		mpi("report-bindings", passes("--cpu-bind=verbose")),
		mpi("timeout =SEC", mpiTimeout),
		mpi("disable-auto-cleanup enable-recovery", passes("-K0")), mpi("disable-recovery", nil),
		mpi("v verbose", passes("--verbose")), mpi("q quiet", passes("--quiet")),
		noted("ompi; others are left", mpi("personality =NAMES", mpiPersonality)),
	}
	all = append(all, mpiAll(spec.Done, "filch starts the ranks itself, with keepers that stand ready", `allow-run-as-root;launcher bootstrap =NAME;
		launcher-exec =FILE;launch-agent =FILE;rmk =NAME;iface =NAME;demux =NAME;topolib =NAME;localhost =NAME;disable-hostname-propagation;
		enable-instant-on-support;use-regexp;fwd-mpirun-port;do-not-resolve;novm;max-vm-size =N;nameserver =ADDRESS;disable-x`)...)
	all = append(all, mpiAll(spec.Said, "filch reports bad ends only", "exitinfo;print-all-exitcodes;report-child-jobs-separately")...)
	all = append(all, mpiAll(spec.Said, "filch has no daemon to debug or to measure", "debug-daemons;debug-daemons-file;leave-session-attached;d debug-devel;show-progress;profile")...)
	all = append(all, mpiAll(spec.Left, "use filch run -w", "nolocal;skip-launch-node;order-nodes =WAY;app =FILE;configfile =FILE;rf rankfile =FILE")...)
	all = append(all, mpiAll(spec.Left, "use --bind-to", "membind =WAY;cpu-set =LIST;cpu-list =LIST;npersocket =N;use-hwthread-cpus;cf cartofile =FILE")...)
	all = append(all, mpiAll(spec.Left, "use --outfile-pattern or -l", `output-filename =DIR;merge-stderr-to-stdout;timestamp-output;prepend-pattern =TEXT;ordered-output;
		xml;xml-file =FILE;xterm =RANKS;index-argv-by-rank`)...)
	all = append(all, mpiAll(spec.Left, "filch nodes shows the nodes", `display-allocation;display-devel-allocation;display-map;display-devel-map;display-diffable-map;display-topo;do-not-launch`)...)
	all = append(all, mpiAll(spec.Left, "start the debugger as the program", "debug;debugger =LIST;tv;get-stack-traces;report-state-on-timeout;output-proctable")...)
	all = append(all, mpiAll(spec.Left, "filch has no universe of processes that join later", `dvm;hnp =URI;ompi-server =URI;report-uri =FILE;report-pid =FILE;report-events =URI;usize =N;
		pmi-port;continuous;max-restarts =N;enable-x`)...)
	all = append(all, mpiAll(spec.Left, "set the parameters with --mca", "am =FILES;tune =FILES")...)
	all = append(all, mpiAll(spec.Left, "copy the files to the nodes first, or give absolute paths", "preload-files =FILES;set-cwd-to-session-dir;path =DIRS")...)
	return append(all, mpiAll(spec.Left, "the text of the real command", "h help =TOPIC;V version;info")...)
}

// mpiOptionOf finds an option by its name, nil without such an option.
func mpiOptionOf(name string) *mpiOption {
	all := mpiOptions()
	for i := range all {
		if slices.Contains(all[i].names, name) {
			return &all[i]
		}
	}
	return nil
}

// label is the option as the documents write the option.
func (o *mpiOption) label() string {
	var text strings.Builder
	text.WriteString("-" + strings.Join(o.names, ", -"))
	for _, v := range o.values {
		text.WriteString(" " + v)
	}
	return text.String()
}

// mpiStdin is -s: ranks for the standard input, or Open MPI's copy of the program.
func mpiStdin(l *mpiLine, _ *mpiPart, v []string) error {
	if len(v) == 0 || v[0] == "" {
		l.shared = append(l.shared, "--bcast")
		return nil
	}
	l.shared = append(l.shared, "--input="+v[0])
	return nil
}

// mpiPrefix sets the paths of an installation for the ranks, as Open MPI does.
func mpiPrefix(_ *mpiLine, p *mpiPart, v []string) error {
	dir := strings.TrimSuffix(v[0], "/")
	for _, path := range [][2]string{{"PATH", dir + "/bin"}, {"LD_LIBRARY_PATH", dir + "/lib"}} {
		value := path[1]
		if old := os.Getenv(path[0]); old != "" {
			value += ":" + old
		}
		p.exports = append(p.exports, path[0]+"="+value)
	}
	return nil
}

func mpiRank(l *mpiLine, _ *mpiPart, v []string) error {
	if way := strings.ToLower(v[0]); way != "slot" && way != "core" {
		return filch.Errorf(filch.Invalid, "filch does not rank by %s", ui.Clean(v[0]))
	}
	l.shared = append(l.shared, "--distribution=block")
	return nil
}

func mpiPersonality(_ *mpiLine, _ *mpiPart, v []string) error {
	if v[0] != "ompi" {
		return filch.Errorf(filch.Invalid, "filch does not do the personality %s", ui.Clean(v[0]))
	}
	return nil
}
