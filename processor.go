package filch

// Processor is the part of a machine behind a slot: a core with its hardware threads, or one
// hardware thread. Core, Socket and Domain number the parts of the machine around the
// processor. A domain is a NUMA node.
type Processor struct {
	CPUs   []int32 `json:"cpus"` // hardware threads of one core, by the kernel's numbers, ascending
	Core   int32   `json:"core"`
	Socket int32   `json:"socket"`
	Domain int32   `json:"numa_node"`
}
