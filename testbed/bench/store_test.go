package main

import (
	"os"
	"slices"
	"testing"
	"time"
)

// measured runs every deed that a store can and looks at what comes out.
func measured(t *testing.T, s storage) {
	t.Helper()
	b := newTestBench(t)
	b.store = storeWish{time: 50 * time.Millisecond, deeds: "insert,lookup,consistent,swap"}
	n := 0
	b.table(s, func(f storeFigure) {
		n++
		if f.Error != "" || f.Failed > 0 {
			t.Errorf("%s, %s: %d failed: %s", f.Store, f.What, f.Failed, f.Error)
			return
		}
		if f.PerSec <= 0 || f.P50US <= 0 || f.P99US < f.P50US || f.CrowdCPUUS <= 0 {
			t.Errorf("%s, %s: got %+v", f.Store, f.What, f)
		}
	})
	if n == 0 {
		t.Error("nothing was measured")
	}
}

func TestStoreTableOfKad(t *testing.T) {
	if err := os.Chdir("../.."); err != nil {
		t.Fatal(err)
	}
	defer os.Chdir("testbed/bench")
	exe, err := buildKad(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKads(exe, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	measured(t, k)
	if k.messages() == 0 {
		t.Error("no message was counted")
	}
}

func TestKeysFor(t *testing.T) {
	own := []string{"a", "b", "c"}
	if got, want := keysFor(opSwap, 2, own, 1), []string{"c", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a, b := keysFor(opInsert, 2, nil, 0), keysFor(opInsert, 2, nil, 0); slices.Contains(a, b[0]) {
		t.Errorf("keys to insert come twice: %v, %v", a, b)
	}
	seen := map[string]bool{}
	for i := range storeKeys {
		for _, k := range keysFor(opLookup, 1, nil, i) {
			seen[k] = true
		}
	}
	if len(seen) != storeKeys {
		t.Errorf("lookups ask for %d keys, want all %d", len(seen), storeKeys)
	}
}
