// Package record is one version of the data under a key: its bytes in messages and on the
// disk, the effect of an operation, and the memory of the last operations, by which a
// repeated operation has the same answer and no second effect. The package holds no
// state: the caller orders the operations on a key and stamps the versions.
package record
