// Package manual has the manual pages of filch inside this binary. The package makes
// the pages from the help of the commands, when a page is asked for, and shows them,
// prints them as text or writes them for man. The package has the table of all
// variables of the environment, too.
package manual
