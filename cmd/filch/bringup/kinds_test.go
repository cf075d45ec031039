package bringup

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// The process that holds an instance in the background starts the launchers: it gets the
// kinds of the nodes as filch up got them.
func TestHolderGetsTheKinds(t *testing.T) {
	bad := int32(3)
	o := &upOptions{Global: &cli.Global{}, kinds: kindFlags{
		Labels: []string{"a100,bigmem", "n[1-2]:slow"}, Resources: []string{"license=4", "n1:scratch=10"}, Bad: &bad,
	}}
	var got kindFlags
	p := pflag.NewFlagSet("up", pflag.ContinueOnError)
	p.ParseErrorsAllowlist.UnknownFlags = true
	got.declare(p)
	if err := p.Parse(o.words()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, o.kinds) {
		t.Errorf("the holder gets %+v, want %+v", got, o.kinds)
	}
}

func TestKindsOfNodes(t *testing.T) {
	k := kindFlags{Labels: []string{"big", "n[1-2]:a100,fast"}, Resources: []string{"license=4", "n2:scratch=10"}}
	for node, want := range map[string]string{"n1": "a100,big,fast license=4", "n2": "a100,big,fast license=4,scratch=10", "n3": "big license=4"} {
		n := place.Node{Dir: place.Dir{Node: node}}
		if err := k.give(&n); err != nil {
			t.Fatal(err)
		}
		if got := string(n.Labels) + " " + string(n.Named); got != want {
			t.Errorf("%s: got %s, want %s", node, got, want)
		}
	}
	if err := k.known([]filch.NodeName{"n1", "n2"}); err != nil {
		t.Error(err)
	}
	if err := k.known([]filch.NodeName{"n1", "n3"}); err == nil || !strings.Contains(err.Error(), `--label "n[1-2]:a100,fast": there will be no node n2`) {
		t.Errorf("got %v", err)
	}
}
