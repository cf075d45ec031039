package spec

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// packed is the plane of block,Pack: a node is filled before the next.
const packed = launcher.MaxRanks

// Layout reads the value of -m: block, cyclic, plane=SIZE or *, with ,Pack or ,NoPack. The level
// behind a colon orders the ranks of a node over sockets. The third level divides the threads
// of cores, and changes nothing: a rank has whole cores.
func Layout(s string) (layout launcher.Layout, plane int32, order string, err error) {
	s, pack, _ := strings.Cut(strings.ToLower(s), ",")
	first, rest, _ := strings.Cut(s, ":")
	order, cores, _ := strings.Cut(rest, ":")
	switch order {
	case "", "*", "block":
		order = ""
	case "cyclic", "fcyclic":
	default:
		return 0, 0, "", invalid("%s is not a distribution", clip(s))
	}
	switch cores {
	case "", "*", "block", "cyclic", "fcyclic":
	default:
		return 0, 0, "", invalid("%s is not a distribution", clip(s))
	}
	switch pack {
	case "", "nopack":
	case "pack":
		if first == "" || first == "*" || first == "block" {
			return launcher.LayoutPlane, packed, order, nil
		}
	default:
		return 0, 0, "", invalid("%s is neither Pack nor NoPack", clip(pack))
	}
	switch {
	case first == "*":
		return launcher.LayoutAuto, 0, order, nil
	case first == "block":
		return launcher.LayoutBlock, 0, order, nil
	case first == "cyclic":
		return launcher.LayoutCyclic, 0, order, nil
	case strings.HasPrefix(first, "plane="):
		if plane, err = Positive(first[len("plane="):]); err != nil {
			return 0, 0, "", invalid("%s is not a plane's size", clip(first[len("plane="):]))
		}
		return launcher.LayoutPlane, plane, order, nil
	case first == "arbitrary":
		return 0, 0, "", invalid("distribution arbitrary needs a host file, which filch does not read").
			WithHint("use -w NODES with -m block or cyclic")
	}
	return 0, 0, "", invalid("%s is not a distribution", clip(s)).WithHint("use block, cyclic or plane=SIZE")
}

// formatLayout is the inverse of [Layout].
func formatLayout(layout launcher.Layout, plane int32) string {
	switch layout {
	case launcher.LayoutBlock:
		return "block"
	case launcher.LayoutCyclic:
		return "cyclic"
	case launcher.LayoutPlane:
		if plane == packed {
			return "block,Pack"
		}
		return "plane=" + strconv.Itoa(int(plane))
	}
	return "*"
}

// bindWays lists the ways to bind ranks to CPUs.
const bindWays = "the ways are none, threads, cores, sockets, ldoms, rank, map_cpu:LIST and mask_cpu:LIST; verbose, in front prints the mask of each rank"

// Limits of a cpu-bind.
const (
	maxBindList = 4096    // entries of a list
	maxCPU      = 1 << 16 // larger than the number of any CPU
)

// CPUBind reads the value of --cpu-bind: [quiet|verbose,]none, threads, cores, sockets,
// ldoms, rank, map_cpu:LIST or mask_cpu:LIST.
func CPUBind(s string) (launcher.Bind, error) {
	var b launcher.Bind
	for s != "" && b.Kind == "" {
		word, rest, _ := strings.Cut(s, ",")
		switch kind, list, _ := strings.Cut(strings.ToLower(word), ":"); kind {
		case "q", "quiet":
			b.Verbose = false
		case "v", "verbose":
			b.Verbose = true
		case "n", "no", "none":
			b.Kind, s = "none", rest
		case "rank":
			b.Kind, s = kind, rest
		case "thread", "threads", "core", "cores", "socket", "sockets", "ldom", "ldoms":
			b.Kind, s = strings.TrimSuffix(kind, "s")+"s", rest
		case "map_cpu", "mapcpu", "mask_cpu", "maskcpu":
			b.Kind = "map_cpu"
			if strings.HasPrefix(kind, "mask") {
				b.Kind = "mask_cpu"
			}
			if rest != "" {
				list += "," + rest
			}
			b.List = strings.Split(list, ",")
			return b, checkBindList(b)
		case "rank_ldom", "map_ldom", "mask_ldom", "boards":
			return b, invalid("filch cannot bind ranks by %s", kind).WithHint("%s", bindWays)
		default:
			return b, invalid("%s is no way to bind ranks to CPUs", clip(word)).WithHint("%s", bindWays)
		}
		if b.Kind == "" {
			s = rest
		}
	}
	if s != "" {
		return b, invalid("%s follows the way to bind ranks, %s: a single way is possible", clip(s), b.Kind)
	}
	return b, nil
}

func checkBindList(b launcher.Bind) error {
	if len(b.List) > maxBindList {
		return invalid("a cpu-bind list of %d entries, %d at most", len(b.List), maxBindList)
	}
	for _, e := range b.List {
		if b.Kind == "mask_cpu" {
			hex := strings.TrimPrefix(strings.ToLower(e), "0x")
			if len(hex) == 0 || len(hex) > maxCPU/4 || strings.Trim(hex, "0123456789abcdef") != "" || strings.Trim(hex, "0") == "" {
				return invalid("%s is not a cpu mask", clip(e))
			}
			continue
		}
		if n, err := strconv.ParseUint(e, 10, 32); err != nil || !digits(e) || n >= maxCPU {
			return invalid("%s is not a cpu number", clip(e))
		}
	}
	return nil
}

// Devices reads the value of --gpus-per-task: N or KIND:N; n is thousandths.
func Devices(s string) (kind string, n int32, err error) {
	count := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		kind, count = s[:i], s[i+1:]
		if !filch.IsLabel(kind) {
			return "", 0, invalid("%s is not [KIND:]COUNT of GPUs", clip(s))
		}
	}
	n, bad := filch.ReadGPUs(count)
	if bad != nil {
		return "", 0, bad
	}
	return kind, n, nil
}
