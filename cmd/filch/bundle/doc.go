// Package bundle packs texts about a fault into one file for a maintainer: bounded in
// size, without secrets, and with a page that says what is in the file and what was
// left out. The package asks no launcher and reads no file.
package bundle
