package spec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// programs makes the program list, and sets the number of ranks if the command line
// fixes the number: an `a : b` run and a --multi-prog file do.
func (r *Run) programs(c Context) ([]launcher.Program, error) {
	s := &r.Request.Shape
	switch {
	case r.Client.MultiProg:
		text, err := c.ReadFile(r.Argv[0])
		if err != nil {
			return nil, invalid("cannot read the program file %s: %v", clip(r.Argv[0]), err)
		}
		if s.Ranks == 0 {
			if s.Ranks, err = multiProgSize(text); err != nil {
				return nil, invalid("%s: %v", clip(r.Argv[0]), err)
			}
		}
		programs, err := MultiProg(text, s.Ranks, r.Argv[1:])
		if err != nil {
			return nil, invalid("%s: %v", clip(r.Argv[0]), err)
		}
		return programs, nil
	case len(r.Parts) > 0:
		return r.mpmd(c)
	}
	return []launcher.Program{{Argv: r.Argv}}, nil
}

// mpmd makes a program of each part of an `a : b` run; a part without -n has
// one rank.
func (r *Run) mpmd(c Context) ([]launcher.Program, error) {
	var programs []launcher.Program
	next := int64(0)
	for i, p := range append([]*Run{r}, r.Parts...) {
		n := max(p.Request.Shape.Ranks, 1)
		program := launcher.Program{
			Argv:  p.Argv,
			Ranks: []launcher.Span{{First: filch.Rank(next), Count: n}},
		}
		if i > 0 {
			if p.Export.None {
				return nil, invalid("--export of a later part of an `a : b` run must begin with ALL")
			}
			program.Env = append(p.Export.Sets, p.Client.Env...)
		}
		programs = append(programs, program)
		if next += int64(n); next > launcher.MaxRanks {
			return nil, invalid("%d ranks, %d at most", next, launcher.MaxRanks)
		}
	}
	r.Request.Shape.Ranks = int32(next)
	return programs, nil
}

// multiProgSize returns the highest rank named in a program file plus 1; without -n
// this is the size of the run.
func multiProgSize(text string) (int32, error) {
	highest := int64(-1)
	for _, l := range joinLines(text) {
		words := strings.Fields(l.text)
		if len(words) == 0 {
			continue
		}
		for _, f := range strings.FieldsFunc(words[0], func(c rune) bool { return c == ',' || c == '-' }) {
			if n, err := strconv.ParseInt(f, 10, 32); err == nil {
				highest = max(highest, n)
			}
		}
	}
	if highest < 0 {
		return 0, invalid("it names no rank").WithHint("add -n N")
	}
	if highest >= launcher.MaxRanks {
		return 0, invalid("rank %d, %d ranks at most", highest, launcher.MaxRanks)
	}
	return int32(highest + 1), nil
}

// finishShape fills in srun's defaults: one rank per node, as many nodes as named,
// never more nodes than ranks.
func (r *Run) finishShape() (warnings []string, err error) {
	s := &r.Request.Shape
	if s.PerRank.Slots == 0 {
		s.PerRank.Slots = 1
	}
	s.Labels = s.Labels.And(filch.Constraint(r.Client.GPUKind))
	if s.Spare > 0 {
		if r.Request.Policy.NoKill {
			return nil, invalid("--no-kill goes on without the ranks of a lost node, and --spare starts the job again")
		}
		r.Request.Policy.Requeue = true
	}
	if named := int32(len(s.Only)); named > 0 {
		if s.MaxNodes > 0 && named > s.MaxNodes {
			return nil, invalid("-w names %d nodes, and -N asks for at most %d", named, s.MaxNodes)
		}
		if s.MinNodes > named {
			return nil, invalid("-N asks for %d nodes, and -w names only %d", s.MinNodes, named)
		}
		s.MinNodes, s.MaxNodes = named, named
	}
	if s.Ranks > 0 && s.MinNodes > s.Ranks {
		warnings = append(warnings, fmt.Sprintf("can't run %d processes on %d nodes, setting nnodes to %d", s.Ranks, s.MinNodes, s.Ranks))
		if int(s.Ranks) < len(s.Only) {
			warnings = append(warnings, fmt.Sprintf("only the first %d of the %d nodes of -w are used", s.Ranks, len(s.Only)))
			s.Only = s.Only[:s.Ranks]
		}
		s.MinNodes, s.MaxNodes = s.Ranks, s.Ranks
	}
	if s.Ranks > 0 {
		s.MaxNodes = min(s.MaxNodes, s.Ranks)
	}
	if s.Ranks > 0 && s.PerNode > 0 && s.MaxNodes > 0 && int64(s.PerNode)*int64(s.MaxNodes) < int64(s.Ranks) {
		return nil, invalid("%s do not fit on %s with at most %d on each", filch.Plural(s.Ranks, "rank"), filch.Plural(s.MaxNodes, "node"), s.PerNode).
			WithHint("at most -n %d", s.PerNode*s.MaxNodes)
	}
	if s.Ranks == 0 && s.MinNodes == s.MaxNodes {
		total := int64(max(s.MinNodes, 1)) * int64(max(s.PerNode, 1))
		if total > launcher.MaxRanks {
			return nil, invalid("%d ranks, %d at most", total, launcher.MaxRanks)
		}
		s.Ranks = int32(total)
		if s.MinNodes == 0 && s.PerNode > 0 {
			s.MinNodes, s.MaxNodes = 1, 1
		}
	}
	return warnings, r.finishGPUs()
}

// finishGPUs divides the GPUs of -G among the ranks, or else among the nodes.
func (r *Run) finishGPUs() error {
	s, n := &r.Request.Shape, r.Client.GPUs
	switch {
	case n == 0:
		return nil
	case s.PerRank.GPUs > 0 || s.NodeGPUs > 0:
		return invalid("--gpus with --gpus-per-task or --gpus-per-node: give one of them")
	case n < filch.GPU:
		s.PerRank.GPUs = n
		if s.Ranks != 1 {
			return invalid("a share of a GPU, --gpus %s, is for one rank", filch.FormatGPUs(n)).WithHint("for a share for each rank: --gpus-per-task=%s", filch.FormatGPUs(n))
		}
		return nil
	case s.Ranks > 0 && n/filch.GPU%s.Ranks == 0:
		s.PerRank.GPUs = n / s.Ranks
		return nil
	case s.MinNodes > 0 && s.MinNodes == s.MaxNodes && n/filch.GPU%s.MinNodes == 0:
		s.NodeGPUs = n / s.MinNodes
		return nil
	}
	return invalid("--gpus %s can be divided evenly neither among the ranks nor among a fixed number of nodes", filch.FormatGPUs(n)).
		WithHint("--gpus-per-task=N for each rank, or --gpus-per-node=N for the ranks of a node together")
}

// most returns the number of ranks, or the limit of an open request.
func (r *Run) most() int32 {
	s := &r.Request.Shape
	if s.Ranks > 0 {
		return s.Ranks
	}
	return int32(min(int64(s.MaxNodes)*int64(max(s.PerNode, 1)), launcher.MaxRanks))
}

// finishMemory turns srun's memory per node into the ledger's memory per rank: memory
// per node divided by the most ranks on a node of this shape.
func (r *Run) finishMemory() {
	s := &r.Request.Shape
	switch {
	case r.Client.MemPerCPU > 0:
		s.PerRank.MemBytes = r.Client.MemPerCPU * int64(s.PerRank.Slots)
	case r.Client.Mem > 0:
		share := int64(r.most())
		if s.MinNodes > 0 {
			share = (share + int64(s.MinNodes) - 1) / int64(s.MinNodes)
		}
		if s.PerNode > 0 {
			share = min(share, int64(s.PerNode))
		}
		s.PerRank.MemBytes = (r.Client.Mem + share - 1) / share
	}
}

// checkRank refuses the number of a rank that the run cannot have as the value of -o, -e or -i: all
// output would be lost.
func (r *Run) checkRank(option, value string) error {
	if n, err := Count(value); !digits(value) || err == nil && n < r.most() {
		return nil
	}
	return invalid("-%s: there is no rank %.20s, the last rank is %d", option, value, r.most()-1).WithHint("for a file of this name: -%s ./%.20s", option, value)
}

// finishIO chooses the streams that the nodes handle; the client handles the rest.
func (r *Run) finishIO() error {
	io := &r.Order.IO
	for _, s := range [][2]string{{"o", r.Client.Stdout}, {"e", r.Client.Stderr}, {"i", r.Client.Stdin}} {
		if err := r.checkRank(s[0], s[1]); err != nil {
			return err
		}
	}
	if r.Client.Pty {
		io.StdinMode, io.StdinRank, io.OutRank, io.ErrRank, io.Unbuffered = launcher.StdinOne, 0, 0, 0, true
		return nil
	}
	switch in := r.Client.Stdin; {
	case in == "" || in == "all":
	case in == launcher.NoFile:
		io.StdinMode = launcher.StdinNone
	case digits(in):
		n, _ := Count(in)
		io.StdinMode, io.StdinRank = launcher.StdinOne, filch.Rank(n)
	case PerNode(in):
		io.StdinMode, io.Stdin = launcher.StdinFile, in
	}
	io.Stdout, io.OutRank = outStream(r.Client.Stdout)
	if r.Client.Stderr == "" {
		io.ErrRank = io.OutRank
		return nil
	}
	if io.Stderr, io.ErrRank = outStream(r.Client.Stderr); io.Stderr == "" {
		io.Stderr = "all"
	}
	return nil
}

// outStream returns the keepers' part of a -o or -e: a file pattern for the keepers,
// none, or "" for the client, with the only rank to pass on.
func outStream(v string) (where string, only filch.Rank) {
	switch {
	case v == launcher.NoFile || v != "" && v != "all" && !digits(v) && PerNode(v):
		return v, -1
	case digits(v):
		n, _ := Count(v)
		return "", filch.Rank(n)
	}
	return "", -1
}

// PerNode reports whether a file pattern names a file per rank or per node, opened on
// the node; the client opens other files.
func PerNode(pattern string) bool {
	if strings.HasPrefix(pattern, "\\") {
		return false
	}
	for i := 0; i+1 < len(pattern); i++ {
		if pattern[i] != '%' {
			continue
		}
		for i++; i+1 < len(pattern) && pattern[i] >= '0' && pattern[i] <= '9'; i++ {
		}
		switch pattern[i] {
		case 't', 'n', 'N':
			return true
		}
	}
	return false
}

// FormatShape writes a shape as the options that would produce the shape.
func FormatShape(s launcher.Shape) string {
	var b strings.Builder
	add := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if s.Ranks > 0 {
		add("-n %d", s.Ranks)
	}
	if s.MinNodes > 0 {
		add("-N %s", FormatNodes(s.MinNodes, s.MaxNodes))
	}
	if s.PerRank.Slots > 1 {
		add("-c %d", s.PerRank.Slots)
	}
	if s.PerNode > 0 {
		add("--ntasks-per-node=%d", s.PerNode)
	}
	if s.Spare > 0 {
		add("--spare=%d", s.Spare)
	}
	if s.PerRank.MemBytes > 0 {
		add("--mem-per-cpu=%s", FormatMemory(s.PerRank.MemBytes/int64(max(s.PerRank.Slots, 1))))
	}
	if s.PerRank.GPUs > 0 {
		add("--gpus-per-task=%s", filch.FormatGPUs(s.PerRank.GPUs))
	}
	if s.NodeGPUs > 0 {
		add("--gpus-per-node=%s", filch.FormatGPUs(s.NodeGPUs))
	}
	if s.Layout != launcher.LayoutAuto {
		add("-m %s", formatLayout(s.Layout, s.Plane))
	}
	if len(s.Only) > 0 {
		add("-w %s", FormatHosts(s.Only))
	}
	if len(s.Exclude) > 0 {
		add("-x %s", FormatHosts(s.Exclude))
	}
	if s.Labels != "" {
		add("-C %s", "'"+string(s.Labels)+"'")
	}
	if s.PerRank.Named != "" {
		add("--resource=%s", s.PerRank.Named)
	}
	if s.Exclusive {
		add("--exclusive")
	}
	if s.Overcommit {
		add("-O")
	}
	return b.String()
}
