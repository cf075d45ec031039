// Package papers makes one page of the figures and tables of five papers (MATRIX v1 and v2, ADAGE, CloudKon,
// DVS) that the simulators can run: what the papers print, what filch does, and what the baselines do.
//
// A number of the page comes from a run. A run has a name, which states all its settings and its seed, as
// in "flat nodes=1024 slots=16 tasks=20 length=64ms seed=1"; `go run ./testbed/sim/papers/cmd -run NAME` repeats
// the run. The page lists the names. No number is written down beforehand but those of the papers, and these
// have their source beside them. A run that fails, or lacks its data, is named as such.
//
// The results are kept by name for the very sources that ran, so that a page goes on where it stopped.
package papers
