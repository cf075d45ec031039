// Command proof runs every promise of this stage in full size and prints one
// table: what was promised, the bar, what was measured, and whether it held.
//
// A promise is kept by tests, by the bench, or by both. The tests run with
// FILCH_PROOF set, which makes them take their full sizes, and report figures in
// log lines that begin with "figure:". A promise holds when all of its tests ran
// and passed and its figures are within the bar.
package main
