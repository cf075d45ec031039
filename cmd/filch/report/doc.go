// Package report writes the life of a job as a page of HTML in one file: filch report.
//
// The page shows the records of ended tasks. It loads nothing: the styles, the script and
// the numbers are in the file. The script puts names into the page as text only.
package report
