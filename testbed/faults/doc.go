// Package faults breaks real launchers on several hosts while clients use the
// shared store, and checks that what the clients saw is one order of events:
// launchers killed and started anew, seats of the roster killed, launchers
// stopped, hosts cut off in both directions or in one, packets lost, a disk that
// is full. Everything else about the store is proven in testbed/sim/store; here
// the processes, the network and the disks are real.
//
// The same launchers also do real work, unbroken: programs that nobody here wrote,
// whose results are known from runs without any launcher.
//
// It has no code of its own besides its tests. They need root, for hosts that
// are network namespaces; see package netns.
package faults
