package spec

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch/launcher"
)

// Layout reads the value of -m: block, cyclic, plane=SIZE or *. The levels behind a
// colon place ranks on sockets and cores, which filch leaves to --cpu-bind; Layout
// checks these levels and ignores them.
func Layout(s string) (layout launcher.Layout, plane int32, err error) {
	s, _, _ = strings.Cut(s, ",") // ,Pack and ,NoPack choose nodes; filch packs
	first, rest, _ := strings.Cut(strings.ToLower(s), ":")
	for level := range strings.SplitSeq(rest, ":") {
		switch level {
		case "", "*", "block", "cyclic", "fcyclic":
		default:
			return 0, 0, invalid("%s is not a distribution", clip(s))
		}
	}
	switch {
	case first == "*":
		return launcher.LayoutAuto, 0, nil
	case first == "block":
		return launcher.LayoutBlock, 0, nil
	case first == "cyclic":
		return launcher.LayoutCyclic, 0, nil
	case strings.HasPrefix(first, "plane="):
		if plane, err = Positive(first[len("plane="):]); err != nil {
			return 0, 0, invalid("%s is not a plane's size", clip(first[len("plane="):]))
		}
		return launcher.LayoutPlane, plane, nil
	case first == "arbitrary":
		return 0, 0, invalid("distribution arbitrary needs a host file, which filch does not read").
			WithHint("use -w NODES with -m block or cyclic")
	}
	return 0, 0, invalid("%s is not a distribution", clip(s)).WithHint("use block, cyclic or plane=SIZE")
}

// formatLayout is the inverse of [Layout].
func formatLayout(layout launcher.Layout, plane int32) string {
	switch layout {
	case launcher.LayoutBlock:
		return "block"
	case launcher.LayoutCyclic:
		return "cyclic"
	case launcher.LayoutPlane:
		return "plane=" + strconv.Itoa(int(plane))
	}
	return "*"
}

// maxBindList bounds the list of a cpu-bind; a node has no more cores.
const maxBindList = 4096

// CPUBind reads the value of --cpu-bind: [quiet|verbose,]none, rank, cores,
// map_cpu:LIST or mask_cpu:LIST.
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
		case "rank", "cores", "core":
			b.Kind, s = strings.TrimSuffix(kind, "s"), rest
			if b.Kind == "core" {
				b.Kind = "cores"
			}
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
		case "sockets", "ldoms", "threads", "rank_ldom", "map_ldom", "mask_ldom":
			return b, invalid("cpu-bind %s is not supported", kind).
				WithHint("use cores, rank, none, map_cpu:LIST or mask_cpu:LIST")
		default:
			return b, invalid("%s is not a cpu-bind", clip(word))
		}
		if b.Kind == "" {
			s = rest
		}
	}
	if s != "" {
		return b, invalid("%s behind a cpu-bind", clip(s))
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
			if len(hex) == 0 || len(hex) > maxBindList/4 || strings.Trim(hex, "0123456789abcdef") != "" || strings.Trim(hex, "0") == "" {
				return invalid("%s is not a cpu mask", clip(e))
			}
			continue
		}
		if n, err := strconv.ParseUint(e, 10, 32); err != nil || !digits(e) || n >= maxBindList {
			return invalid("%s is not a cpu number", clip(e))
		}
	}
	return nil
}

// Devices reads the value of --gpus-per-task: N or KIND:N.
func Devices(s string) (kind string, n int32, err error) {
	count := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		kind, count = s[:i], s[i+1:]
		if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != "" {
			return "", 0, invalid("%s is not [KIND:]COUNT of GPUs", clip(s))
		}
	}
	if n, err = Count(count); err != nil {
		return "", 0, invalid("%s is not [KIND:]COUNT of GPUs", clip(s))
	}
	return kind, n, nil
}
