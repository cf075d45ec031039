// Package screen draws the screen of filch top, and decides what a key does.
//
// A [Model] is a value. [Model.Update] takes one input and returns the next Model and an
// [Order] for the program around the screen; [Model.Frame] writes the Model as lines. Both
// read no clock and do no input or output. Names and texts of other people are written by
// ui.Clean, so that they cannot move the cursor.
package screen
