package main

import (
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// What is wrong with a disk is told with a unit, and with what helps.
func TestDoctorOfADisk(t *testing.T) {
	for _, c := range []struct {
		name       string
		here       wire.StoreHere
		text, hint string
	}{
		{"no room", wire.StoreHere{DiskTrouble: "write a.log: no space left on device; 2 entries of 9 bytes wait in memory"}, "n1: cannot write records to the disk: write a.log: no space", "make room on the disk"},
		{"not writable", wire.StoreHere{DiskTrouble: "open a.log: operation not permitted"}, "n1: cannot write records to the disk: open a.log: operation", "check the disk of FILCH_LOCAL and its permissions"},
		{"quota", wire.StoreHere{DiskTrouble: "full", QuotaBytes: 4 << 20, LiveBytes: 4 << 20}, "n1: cannot write records to the disk: full", "set a larger FILCH_STORE_BYTES"},
		{"slow", wire.StoreHere{SyncWait: 3}, "n1: the disk is slow: writing a record took 3", "put FILCH_LOCAL"},
		{"was full", wire.StoreHere{SyncWait: 121, SyncFault: "write a.log: no space left on device"}, "n1: the disk took no records for 2m01s: write a.log: no space left on device; now it does", "make room on the disk"},
		{"one byte", wire.StoreHere{SkippedBytes: 1}, "n1: the launcher could not read 1 byte of the records", "other replicas"},
		{"few", wire.StoreHere{SkippedBytes: 481}, "n1: the launcher could not read 481 bytes of the records", "other replicas"},
		{"many", wire.StoreHere{SkippedBytes: 12 << 10}, "n1: the launcher could not read 12K of the records", "other replicas"},
	} {
		found := examineDisk(&wire.RosterInfo{Node: "n1", Here: c.here})
		if len(found) == 0 || !strings.HasPrefix(found[0].Text, c.text) || !strings.HasPrefix(found[0].Hint, c.hint) {
			t.Errorf("%s: got %+v, want %q and %q", c.name, found, c.text, c.hint)
		}
	}
}

// A disk with little room is told before it is full, and once for all nodes on it.
func TestDoctorOfRoom(t *testing.T) {
	on := func(n filch.NodeName, free, size int64, cut int) wire.RosterInfo {
		return wire.RosterInfo{Node: n, Disk: wire.DiskHere{Free: free, Size: size, Cut: cut}}
	}
	found := examineRoom([]wire.RosterInfo{on("n1", 9<<20, 100<<20, 0), on("n2", 9<<20, 100<<20, 14), on("n3", 11<<20, 100<<20, 0), {Node: "n4"}})
	var texts []string
	for _, f := range found {
		texts = append(texts, f.Level+" "+f.Text)
	}
	want := "warning n2: the disk was too full for the output of 14 tasks\nwarning n[1-2]: the disk has 9216K free of 100M (9 %)"
	if got := strings.Join(texts, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
