// Package top starts filchtop, the program with the screen of filch top. Package top finds
// the launcher, so that filchtop begins with a launcher that answers; then filchtop takes
// the place of this process.
package top
