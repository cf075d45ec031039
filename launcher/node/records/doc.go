// Package records is the node's side of the records that the nodes of an instance keep
// together: [Records] sends operations to the [Store], and calls back the part of the node
// that asked. The ids of jobs, the writer of job records, the scan for orphans
// and the quota are built on operations.
package records
