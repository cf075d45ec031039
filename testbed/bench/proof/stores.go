package main

import (
	"fmt"
	"strings"
)

// storeFigure is what the bench writes about one operation of one store.
type storeFigure struct {
	Store, What string
	Nodes       int
	PerSec      float64
	P50US       float64
	CPUUS       float64
	CrowdCPUUS  float64
	Requests    float64
	Error       string
}

// storeIdle is what it writes about idle launchers.
type storeIdle struct {
	Nodes                                             int
	CPUMean, CPUMax, BytesPerSec, FramesPerSec, RSSMB float64
}

// The bars of the store. CPU is that of all launchers, for one caller over three
// of them: with more processes than cores it is also that of waking them.
const (
	lookupRequests, lookupCPU   = 1, 80.0
	confirmRequests, confirmCPU = 3, 250.0
	swapRequests, swapCPU       = 4, 250.0
	batchRate                   = 100_000.0
	storeIdleCPU                = 0.2 // percent of a core
	storeCPUNodes               = 3
)

// stores are the promises about the store that the bench keeps.
func stores() []promise {
	return []promise{
		{
			line: "12a", what: "a lookup in the store", bar: "1 request, <= 80 us CPU",
			bench: operationWithin("lookup", lookupRequests, lookupCPU),
		},
		{
			line: "12b", what: "a consistent lookup alone", bar: "<= 3 requests, <= 250 us CPU",
			bench: operationWithin("lookup, consistent", confirmRequests, confirmCPU),
		},
		{
			line: "12c", what: "a compare-and-swap with 3 replicas", bar: "<= 4 requests, <= 250 us CPU",
			bench: operationWithin("compare-and-swap", swapRequests, swapCPU),
		},
		{
			line: "12d", what: "batched operations a second", bar: ">= 100,000",
			bench: batches,
		},
		{
			line: "12e", what: "durable writes beside etcd, which syncs each", bar: "no slower, no more CPU",
			bench: besideEtcd,
		},
		{
			line: "12f", what: "32 idle launchers", bar: "< 0.2 % of a core each",
			bench: storesIdle,
		},
	}
}

// operationWithin judges one operation of filch's store, one after the other.
func operationWithin(what string, requests, cpu float64) func(*figures) verdict {
	return func(f *figures) verdict {
		v := verdict{ok: true}
		var said []string
		for _, s := range f.Stores {
			if s.Store != "filch" || s.What != what && s.Error == "" {
				continue
			}
			if s.Error != "" {
				return verdict{measured: fmt.Sprintf("%d launchers: %s", s.Nodes, s.Error)}
			}
			said = append(said, fmt.Sprintf("%d launchers: %.2f requests, %.0f us CPU, %.0f us", s.Nodes, s.Requests, s.CPUUS, s.P50US))
			v.ok = v.ok && s.Requests <= requests && (s.Nodes != storeCPUNodes || s.CPUUS <= cpu)
		}
		v.measured = strings.Join(said, "; ")
		v.ok = v.ok && len(said) > 0
		return v
	}
}

// batches judges the best rate of batched operations of each kind.
func batches(f *figures) verdict {
	best, what := 0.0, ""
	var said []string
	for _, s := range f.Stores {
		if s.Store != "filch" || !strings.Contains(s.What, "at once") || s.Error != "" {
			continue
		}
		said = append(said, fmt.Sprintf("%s over %d: %.0f/s", strings.TrimSuffix(s.What, " at once"), s.Nodes, s.PerSec))
		if s.PerSec > best {
			best, what = s.PerSec, s.What
		}
	}
	return verdict{measured: fmt.Sprintf("best %.0f/s (%s); %s", best, what, strings.Join(said, ", ")), ok: best >= batchRate}
}

// besideEtcd compares writes that are on disks when they are answered, over
// three nodes each.
func besideEtcd(f *figures) verdict {
	v := verdict{ok: true}
	var said []string
	for _, e := range f.Stores {
		if e.Store != "etcd" || e.Error != "" || e.What != "insert" && e.What != "compare-and-swap" {
			continue
		}
		for _, s := range f.Stores {
			if s.Store != "filch, durable" || s.What != e.What || s.Nodes != e.Nodes || s.Error != "" {
				continue
			}
			said = append(said, fmt.Sprintf("%s: %.2f x its time, %.2f x its CPU, %.2f x its rate", s.What, s.P50US/e.P50US, s.CPUUS/e.CPUUS, s.PerSec/e.PerSec))
			v.ok = v.ok && s.P50US <= e.P50US && s.CPUUS <= e.CPUUS && s.PerSec >= e.PerSec
		}
	}
	v.measured = strings.Join(said, "; ")
	v.ok = v.ok && len(said) > 0
	return v
}

// storesIdle judges launchers that are asked nothing.
func storesIdle(f *figures) verdict {
	for _, i := range f.StoreIdle {
		return verdict{
			measured: fmt.Sprintf("%d launchers: %.3f %% each, at most %.3f; each sends %.0f bytes in %.1f packets a second; RSS %.0f MB", i.Nodes, i.CPUMean, i.CPUMax, i.BytesPerSec, i.FramesPerSec, i.RSSMB),
			ok:       i.CPUMean < storeIdleCPU,
		}
	}
	return verdict{measured: "not measured"}
}
