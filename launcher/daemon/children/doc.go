// Package children starts and adopts the child processes of a launcher: the keepers of
// ranks and the runners of tasks. The package also ends the orphans, processes of dead
// keepers, which become children of the launcher.
//
// Keepers of running jobs outlive their launcher for a while; the next launcher adopts
// the keepers.
package children
