package bringup

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// kindFlags say of what kind the nodes are, when a node is bad, and where the node serves its
// metrics: --label, --resource, --role, --drain-bad and --metrics of up and join. A value of
// the first three that begins with NODES: is for
// these nodes only.
type kindFlags struct {
	Labels    []string `json:"labels,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Roles     []string `json:"roles,omitempty"`
	Bad       *int32   `json:"drainBad,omitempty"` // --drain-bad
	Metrics   string   `json:"metrics,omitempty"`  // --metrics
}

func (k *kindFlags) declare(p *pflag.FlagSet) {
	p.Var((*badFlag)(k), "drain-bad", "drain a node on which `N` tasks in a row fail while others of their jobs end well on other nodes (without N: 10; without the option: never), at most a quarter of the nodes")
	p.Lookup("drain-bad").NoOptDefVal = badDefault
	p.StringVar(&k.Metrics, "metrics", "", "serve metrics for Prometheus on `IP:PORT`: 127.0.0.1:0 is any free port of this machine; beyond this machine a token is needed (default: the setting metrics, or none)")
	p.StringArrayVar(&k.Labels, "label", nil, "give the nodes `LABELS` for the option -C: a100,bigmem; n[1-2]:a100 is for these nodes only; may be repeated")
	p.StringArrayVar(&k.Roles, "role", nil, "use the nodes for this `WORK` only: tasks (of one process), gangs (ranks of runs and tasks), or all (the default); n1:gangs is for this node only; may be repeated")
	p.StringArrayVar(&k.Resources, "resource", nil, "each node has `NAME=N` of a resource for the option --resource: license=4; n1:license=4 is for this node only; may be repeated")
}

// badDefault is the value of --drain-bad without a number.
const badDefault = "10"

// badFlag reads --drain-bad.
type badFlag kindFlags

func (f *badFlag) Set(value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 || n > badMax {
		return filch.Errorf(filch.Invalid, "a number from 0 to %d is expected", badMax)
	}
	bad := int32(n)
	f.Bad = &bad
	return nil
}

func (f *badFlag) String() string {
	if f.Bad == nil {
		return ""
	}
	return strconv.Itoa(int(*f.Bad))
}

func (*badFlag) Type() string { return "N" }

// badMax bounds the number, as the setting drain_bad is bound.
const badMax = 1000

// give reads the values for the node and sets the node's labels and resources.
func (k *kindFlags) give(n *place.Node) error {
	name := filch.NodeName(n.Dir.Node)
	labels, err := valuesFor(k.Labels, "label", name)
	if err != nil {
		return err
	}
	l, bad := filch.ReadLabels(labels)
	if bad != nil {
		return ui.Misused(ofFlag("label", bad))
	}
	resources, err := valuesFor(k.Resources, "resource", name)
	if err != nil {
		return err
	}
	a, bad := filch.ReadAmounts(resources)
	if bad != nil {
		return ui.Misused(ofFlag("resource", bad))
	}
	roles, err := valuesFor(k.Roles, "role", name)
	if err != nil {
		return err
	}
	if k.Metrics != "" {
		if _, err := netip.ParseAddrPort(k.Metrics); err != nil {
			return ui.Misused(filch.Errorf(filch.Invalid, "--metrics %s is no IP:PORT", strconv.Quote(k.Metrics)).
				WithHint("127.0.0.1:0 takes a free port of this machine"))
		}
	}
	role := filch.ForAll
	if roles != "" {
		if role, bad = filch.ReadRole(roles); bad != nil {
			return ui.Misused(ofFlag("role", bad))
		}
	}
	n.Role, n.RoleGiven = role, roles != ""
	n.Labels, n.Named, n.DrainBad, n.Metrics = n.Labels.With(l), a, k.Bad, k.Metrics
	return nil
}

// check refuses values that no node could take.
func (k *kindFlags) check() error { return k.give(&place.Node{}) }

// known refuses values for nodes other than these.
func (k *kindFlags) known(nodes []filch.NodeName) error {
	for _, o := range [...]struct {
		name   string
		values []string
	}{{"label", k.Labels}, {"resource", k.Resources}, {"role", k.Roles}} {
		for _, v := range o.values {
			list, _, err := splitKind(v, o.name)
			if err != nil {
				return err
			}
			for _, n := range list {
				if !slices.Contains(nodes, n) {
					return ui.Misused(filch.Errorf(filch.Invalid, "--%s %.80q: there will be no node %s", o.name, v, n).
						WithHint("the nodes are %s", launcher.ListNames(nodes)))
				}
			}
		}
	}
	return nil
}

func ofFlag(name string, err *filch.Error) *filch.Error {
	return filch.Errorf(err.Kind, "--%s: %s", name, err.Text).WithHint("%s", err.Hint)
}

// splitKind splits [NODES:]VALUE; without NODES the value is for every node.
func splitKind(v, option string) (nodes []filch.NodeName, value string, err error) {
	list, value, some := strings.Cut(v, ":")
	if !some {
		return nil, v, nil
	}
	if nodes, err = spec.Hosts(list); err != nil {
		return nil, "", ui.Misused(filch.Errorf(filch.Invalid, "--%s: %s", option, err.Error()).WithHint("--%s NODES:VALUE, as in --%s n[1-2]:%s", option, option, value))
	}
	return nodes, value, nil
}

// valuesFor joins the values of an option that concern the node.
func valuesFor(values []string, option string, name filch.NodeName) (string, error) {
	var mine []string
	for _, v := range values {
		nodes, value, err := splitKind(v, option)
		if err != nil {
			return "", err
		}
		if nodes == nil || slices.Contains(nodes, name) {
			mine = append(mine, value)
		}
	}
	return strings.Join(mine, ","), nil
}
