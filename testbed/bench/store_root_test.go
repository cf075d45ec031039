//go:build root

package main

import "testing"

func TestRootStoreTableOfEtcd(t *testing.T) {
	e, err := newEtcd(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	measured(t, e)
	c, err := e.dial(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.do(opSwap, []string{oldKey(1)}, []byte("x")); err == nil {
		t.Error("a swap of a key whose revision is another succeeded")
	}
	if err := c.do(opConfirm, []string{"bench/none"}, nil); err == nil {
		t.Error("a key that is not there was found")
	}
}
