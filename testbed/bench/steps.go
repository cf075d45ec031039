package main

import "fmt"

// steps prints how many steps of one rank of true a second a loop starts, one
// after the other and eight at a time: srun's inside its allocation, and ours by
// the shim that stands in for it.
func (b *bench) steps(o *ours, s *slurm) []rateFigure {
	fmt.Printf("\nsteps of one rank of true over four nodes, for %v each\n\n", b.rate)
	fmt.Printf("%-8s %8s %9s %11s %6s\n", "", "clients", "steps/s", "CPU ms/step", "ratio")
	one := ask{ranks: 1, hosts: 1}
	var all []rateFigure
	for _, clients := range []int{1, 8} {
		var ours float64
		for _, r := range []struct {
			name string
			c    command
		}{
			{"filch", o.shim("srun", "-Q", "-n1", "/bin/true")},
			{"srun", s.command(one)},
		} {
			f := b.rateOf(r.c, clients)
			f.Launcher, f.Hosts = r.name, slurmNodes
			all = append(all, f)
			fmt.Printf("%-8s %8d %9.0f %11.2f", f.Launcher, clients, f.PerSec, f.CPUMS)
			if r.name == "filch" {
				ours = f.PerSec
			} else if f.PerSec > 0 {
				fmt.Printf(" %6.1f", ours/f.PerSec)
			}
			if f.Failed > 0 {
				fmt.Printf("  %d FAILED", f.Failed)
			}
			fmt.Println()
		}
	}
	return all
}
