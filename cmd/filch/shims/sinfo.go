package shims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// sinfoMain is sinfo: one partition with every node.
func sinfoMain(args []string) int {
	q, err := readQuestion(args, sinfoTable())
	if err != nil {
		return ui.Fail(err)
	}
	if q.helped() {
		return 0
	}
	nodes, _, _, err := resources()
	if err != nil {
		return absentOr(err)
	}
	if nodes, err = q.nodesAsked(nodes); err != nil {
		return ui.Fail(err)
	}
	format, ok := q.get("format")
	switch {
	case ok:
	case q.has("Node"):
		format = "%18N %.6D %.9P %6t"
	case q.has("summarize"):
		format = "%9P %.5a %.10l %.16F  %N"
	default:
		format = "%9P %.5a %.10l %.6D %.6t %N"
	}
	format = knownLetters(format, sinfoHeads, "node")
	if !q.has("noheader") {
		fmt.Println(squeueLine(format, func(c byte) string { return sinfoHeads[c] }))
	}
	if q.has("Node") { // a line for each node
		for i := range nodes {
			fmt.Println(squeueLine(format, func(c byte) string { return sinfoField(c, nodeKind(nodes[i]), nodes[i:i+1]) }))
		}
		return 0
	}
	for _, group := range sinfoGroups(format, nodes) {
		fmt.Println(squeueLine(format, func(c byte) string { return sinfoField(c, nodeKind(group[0]), group) }))
	}
	return 0
}

// sinfoSums are the letters with a value for several nodes together. Every other letter has a
// value for each node: only nodes with the same values share a line.
const sinfoSums = "DNCFA"

// sinfoGroups divides nodes into the lines of sinfo, busy nodes first.
func sinfoGroups(format string, nodes []wire.NodeInfo) (groups [][]wire.NodeInfo) {
	at := map[string]int{}
	nodes = slices.Clone(nodes)
	kinds := []string{"mix", "alloc", "idle", "drain"}
	if strings.ContainsAny(format, "tT") {
		slices.SortStableFunc(nodes, func(a, b wire.NodeInfo) int {
			return slices.Index(kinds, nodeKind(a)) - slices.Index(kinds, nodeKind(b))
		})
	}
	for i := range nodes {
		key := squeueLine(format, func(c byte) string {
			if strings.IndexByte(sinfoSums, c) >= 0 {
				return ""
			}
			return sinfoField(c, nodeKind(nodes[i]), nodes[i:i+1])
		})
		g, known := at[key]
		if !known {
			g = len(groups)
			at[key], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], nodes[i])
	}
	return groups
}

// nodesAsked keeps the nodes that the options select.
func (q question) nodesAsked(nodes []wire.NodeInfo) ([]wire.NodeInfo, error) {
	var names []filch.NodeName
	if list, ok := q.get("nodes"); ok {
		var err error
		if names, err = spec.Hosts(list); err != nil {
			return nil, err
		}
	}
	states, _ := q.get("states")
	return slices.DeleteFunc(nodes, func(n wire.NodeInfo) bool {
		return names != nil && !slices.Contains(names, n.Node) || !q.among([]string{batchHome}, "partition") || !stateAsked(states, nodeKind(n))
	}), nil
}

// stateAsked reports whether a list of states has a state, in its short or long form.
func stateAsked(list, kind string) bool {
	if list == "" {
		return true
	}
	for s := range strings.SplitSeq(strings.ToLower(list), ",") {
		if s == "all" || s != "" && strings.HasPrefix(s, kind) || s == "mixed" && kind == "mix" {
			return true
		}
	}
	return false
}

func nodeKind(n wire.NodeInfo) string {
	switch {
	case n.State == "draining":
		return "drain"
	case n.Free == n.Slots:
		return "idle"
	case n.Free == 0:
		return "alloc"
	}
	return "mix"
}

var sinfoHeads = map[byte]string{
	'P': "PARTITION", 'R': "PARTITION", 'a': "AVAIL", 'l': "TIMELIMIT", 'D': "NODES", 't': "STATE", 'T': "STATE", 'N': "NODELIST", 'G': "GRES", 'p': "PRIO_TIER",
	'c': "CPUS", 'm': "MEMORY", 'C': "CPUS(A/I/O/T)", 'n': "HOSTNAMES", 'F': "NODES(A/I/O/T)",
	'A': "NODES(A/I)", 'b': "ACTIVE_FEATURES", 'B': "MAX_CPUS_PER_NODE", 'd': "TMP_DISK", 'e': "FREE_MEM", 'E': "REASON", 'f': "AVAIL_FEATURES", 'g': "GROUPS", 'h': "OVERSUBSCRIBE",
	'H': "TIMESTAMP", 'i': "RESERVATION", 'I': "PRIO_JOB_FACTOR", 'L': "DEFAULTTIME", 'M': "PREEMPT_MODE", 'o': "NODE_ADDR", 'O': "CPU_LOAD", 'r': "ROOT", 's': "JOB_SIZE",
	'S': "ALLOCNODES", 'u': "USER", 'U': "USER", 'v': "VERSION", 'V': "CLUSTER", 'w': "WEIGHT", 'X': "SOCKETS", 'Y': "CORES", 'Z': "THREADS", 'z': "S:C:T",
}

// sinfoConstants are the fields that have the same value for every node here.
var sinfoConstants = map[byte]string{
	'R': batchHome, 'P': batchHome + "*", 'a': "up", 'l': "infinite", 'p': "1", 'B': "UNLIMITED", 'd': "0", 'g': "all", 'h': "NO", 'H': "Unknown", 'i': "", 'I': "1", 'L': "n/a",
	'M': "OFF", 'O': "N/A", 'r': "no", 's': "1-infinite", 'S': "all", 'u': "Unknown", 'U': "Unknown", 'v': "22.05.8", 'V': batchHome, 'w': "1", 'X': "1", 'Z': "1",
}

func sinfoField(c byte, kind string, nodes []wire.NodeInfo) string {
	switch c {
	case 'D':
		return fmt.Sprint(len(nodes))
	case 't', 'T':
		return kind
	case 'N':
		return nodeList(nodes)
	case 'G':
		return or(gres(nodes[0]), "(null)")
	case 'f', 'b':
		return or(string(nodes[0].Labels), "(null)")
	case 'c', 'Y':
		return fmt.Sprint(nodes[0].Slots)
	case 'z':
		return fmt.Sprintf("1:%d:1", nodes[0].Slots)
	case 'm':
		return fmt.Sprint(nodes[0].MemBytes >> 20)
	case 'e':
		return fmt.Sprint(nodes[0].MemFree >> 20)
	case 'E':
		return or(drainReason(nodes[0]), "none")
	case 'n', 'o':
		return string(nodes[0].Node)
	case 'F', 'A':
		busy, idle := 0, 0
		for _, n := range nodes {
			switch nodeKind(n) {
			case "idle":
				idle++
			case "mix", "alloc":
				busy++
			}
		}
		if c == 'A' {
			return fmt.Sprintf("%d/%d", busy, idle)
		}
		return fmt.Sprintf("%d/%d/%d/%d", busy, idle, len(nodes)-busy-idle, len(nodes))
	case 'C':
		free, total := int32(0), int32(0)
		for _, n := range nodes {
			free, total = free+n.Free, total+n.Slots
		}
		return fmt.Sprintf("%d/%d/0/%d", total-free, free, total)
	}
	return sinfoConstants[c]
}

// gres are the GPUs and the further resources of a node, as Slurm lists them.
func gres(n wire.NodeInfo) string {
	var all []string
	if len(n.GPUs) > 0 {
		all = append(all, fmt.Sprintf("gpu:%d", len(n.GPUs)))
	}
	if n.Named != "" {
		all = append(all, strings.ReplaceAll(string(n.Named), "=", ":"))
	}
	return strings.Join(all, ",")
}

func drainReason(n wire.NodeInfo) string {
	if n.Drain == nil {
		return ""
	}
	return n.Drain.Reason
}
