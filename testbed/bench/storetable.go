package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// storeIdle is what a launcher costs while nothing is asked of it.
type storeIdle struct {
	Nodes        int
	CPUMean      float64 // percent of a core
	CPUMax       float64
	BytesPerSec  float64 // sent, by each; below 0: not known
	FramesPerSec float64
	MessagesSec  float64 // of the store
	RSSMB        float64
}

// stores prints what operations cost, beside kad-dht and etcd.
func (b *bench) stores(exe string) (rows []storeFigure, idle []storeIdle) {
	fmt.Printf("\nthe store: keys of 10 to 25 bytes, values of %d; one caller that asks the nodes in turn, then %d callers at once, %v each\n", valueBytes, storeCrowd, b.store.time)
	fmt.Printf("requests are between nodes, two messages each; kad-dht and filch answer lookups, as told, from what may be old\n\n")
	fmt.Printf("%-15s %5s  %-30s | %8s %8s %8s %6s | %9s %8s %8s\n", "", "nodes", "", "p50 us", "p99 us", "CPU us", "req.", "ops/s", "CPU us", "p99 us")
	show := func(f storeFigure) {
		rows = append(rows, f)
		req := "-"
		if f.Requests >= 0 {
			req = fmt.Sprintf("%.2f", f.Requests)
		}
		fmt.Printf("%-15s %5d  %-30s | %8.0f %8.0f %8.1f %6s | %9.0f %8.1f %8.0f", f.Store, f.Nodes, f.What, f.P50US, f.P99US, f.CPUUS, req, f.PerSec, f.CrowdCPUUS, f.CrowdP99US)
		if f.Error != "" {
			fmt.Printf("  FAILED: %s", f.Error)
		}
		fmt.Println()
	}
	idle = b.ourStores(exe, show)
	b.rivalStores(show)
	for _, i := range idle {
		fmt.Printf("\n%d idle launchers over %v: %.3f %% of a core each, at most %.3f; each sends %s and %.1f messages of the store a second; RSS %.1f MB\n",
			i.Nodes, b.idle, i.CPUMean, i.CPUMax, i.traffic(), i.MessagesSec, i.RSSMB)
	}
	return rows, idle
}

func (i *storeIdle) traffic() string {
	if i.BytesPerSec < 0 {
		return "traffic that was not measured (it needs root)"
	}
	return fmt.Sprintf("%.0f bytes in %.1f packets", i.BytesPerSec, i.FramesPerSec)
}

// ourStores measures filch, and the largest mesh while it is idle.
func (b *bench) ourStores(exe string, show func(storeFigure)) (idle []storeIdle) {
	if !strings.Contains(b.store.stores, "filch") {
		return nil
	}
	sizes := b.sizes()
	for _, n := range sizes {
		m, err := newMesh(&ours{exe: exe}, b.scratch, n)
		if err != nil {
			show(storeFigure{Store: "filch", Nodes: n, Requests: -1, Error: err.Error()})
			continue
		}
		if n == slices.Max(sizes) {
			idle = append(idle, b.storeIdle(m))
		}
		b.table(&filchStore{mesh: m}, show)
		b.table(&filchStore{mesh: m, durable: true}, show)
		m.close()
	}
	return idle
}

// rivalStores measures those that are installed.
func (b *bench) rivalStores(show func(storeFigure)) {
	if strings.Contains(b.store.stores, "etcd") {
		if e, err := newEtcd(b.scratch); err != nil {
			fmt.Printf("not measured: etcd: %v\n", err)
		} else {
			b.table(e, show)
			e.close()
		}
	}
	if !strings.Contains(b.store.stores, "kad-dht") {
		return
	}
	exe, err := buildKad(b.scratch)
	for _, n := range b.sizes() {
		var k *kads
		if err == nil {
			k, err = newKads(exe, n)
		}
		if err != nil {
			fmt.Printf("not measured: kad-dht over %d nodes: %v\n", n, err)
			return
		}
		b.table(k, show)
		k.close()
	}
}

// sizes are the meshes to be measured.
func (b *bench) sizes() (all []int) {
	for text := range strings.SplitSeq(b.store.meshes, ",") {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			all = append(all, n)
		}
	}
	return all
}

// table measures what a store can.
func (b *bench) table(s storage, show func(storeFigure)) {
	if err := fillOnce(s); err != nil {
		show(storeFigure{Store: s.name(), Nodes: s.nodes(), What: "fill", Requests: -1, Error: err.Error()})
		return
	}
	for _, d := range deeds {
		most := s.can(d)
		if !strings.Contains(b.store.deeds, [...]string{"insert", "lookup", "consistent", "swap"}[d]) {
			continue
		}
		if most > 0 {
			show(b.storeRow(s, d, 1))
		}
		if most > 1 {
			show(b.storeRow(s, d, most))
		}
	}
}

// fillOnce fills a store, a mesh only the first time.
func fillOnce(s storage) error {
	if f, ok := s.(*filchStore); ok && f.durable {
		return nil
	}
	return fill(s)
}

// storeIdle watches launchers that are asked nothing.
func (b *bench) storeIdle(m *mesh) storeIdle {
	f := storeIdle{Nodes: len(m.list), BytesPerSec: -1}
	time.Sleep(calm)
	messages := m.messages()
	bytes, frames, known := m.traffic()
	percent, rss := watchIdle(m.list, b.idle)
	if after, more, ok := m.traffic(); ok && known {
		f.BytesPerSec = float64(after-bytes) / b.idle.Seconds() / float64(f.Nodes)
		f.FramesPerSec = float64(more-frames) / b.idle.Seconds() / float64(f.Nodes)
	}
	f.MessagesSec = float64(m.messages()-messages) / b.idle.Seconds() / float64(f.Nodes)
	for i := range percent {
		f.CPUMean += percent[i] / float64(f.Nodes)
		f.CPUMax = max(f.CPUMax, percent[i])
		f.RSSMB += megabytes(rss[i]) / float64(f.Nodes)
	}
	return f
}

// traffic is what went over the loopback of the launchers' own network.
func (m *mesh) traffic() (sent, frames int64, ok bool) {
	if !m.own {
		return 0, 0, false
	}
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.list[0].PID), "net/dev"))
	if err != nil {
		return 0, 0, false
	}
	for line := range bytes.Lines(raw) {
		name, rest, _ := strings.Cut(string(line), ":")
		f := strings.Fields(rest)
		if strings.TrimSpace(name) != "lo" || len(f) < 10 {
			continue
		}
		sent, err = strconv.ParseInt(f[8], 10, 64)
		if err == nil {
			frames, err = strconv.ParseInt(f[9], 10, 64)
		}
		return sent, frames, err == nil
	}
	return 0, 0, false
}
