// Package yaml turns the YAML of workflow files and settings into JSON. Each value
// of the JSON stands on the line of the value in the YAML, so the reader of the JSON
// names lines of the YAML in errors.
//
// [JSON] is called by filchd (filchd yaml) and by tests, never by the thin
// client: the init of a full YAML reader takes 0.2 ms of the start of every
// program that links the library. The package opens no file and starts no goroutine.
//
// Values are read as in YAML 1.2. Anchors, aliases and tags are refused: a task
// written by reference has no line to name, and a few lines of
// aliases can stand for gigabytes. The library nests at most 10,000 levels;
// TextMax and MarksMax bound the memory.
package yaml
