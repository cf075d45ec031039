package record

// Stored is a record whose home is this node.
type Stored struct {
	Key   string
	Value []byte
}
