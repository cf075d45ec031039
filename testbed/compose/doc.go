// Package compose is a cluster of containers: its tests bring up four nodes
// with docker-compose, run real MPI programs over them, and kill, pause and cut
// off nodes. They need Docker and are built with the tag compose; `make testbed`
// runs them.
package compose
