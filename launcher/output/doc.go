// Package output carries what ranks and tasks print.
//
// [Cutter] cuts a stream at line ends, so that lines of different ranks never
// mix; [AppendLabeled] labels their lines; [Expand]
// expands srun's file name patterns on whichever side opens the file; [Log]
// keeps what a detached job printed, bounded, and gives it back per rank.
// Nothing here decides when a job ends, and nothing blocks but the writes
// themselves.
package output
