// Package tasks is the node's part in many-task computing. [Tasks] stands between the Core
// of package mtc and the other cores: Tasks gives running tasks their room of the ledger,
// sends proposals of the Core to the store, and reports progress to clients.
package tasks
