package kad

// Spares is the number of nodes that the contacts of a joining node have named.
func (f *Finder) Spares() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.spares)
}
