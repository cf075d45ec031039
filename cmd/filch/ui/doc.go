// Package ui is the text that a user of filch reads: messages, tables, and output
// of programs made safe for a terminal.
//
// Results go to standard output. Everything else goes to standard error, one line
// at a time, each with the name of the command in front. [Clean] and [Sanitized]
// write control characters as escapes, so that a terminal does not obey them.
package ui
