// Package output carries the output of ranks and tasks.
//
// [Cutter] cuts a stream at line ends, so that lines of different ranks never mix;
// [AppendLabeled] labels their lines; [Expand] expands srun's file name patterns on
// whichever side opens the file; [Log] keeps the output of a detached job, bounded, and
// returns the output per rank. Nothing here decides when a job ends, and nothing blocks
// but the writes themselves.
package output
