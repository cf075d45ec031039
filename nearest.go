package filch

// Limits on a search for a similar name: a hint is not worth a second.
const (
	nearestBytes = 80   // of a name
	nearestNames = 5000 // compared at most
)

// Nearest returns the name in all with the fewest bytes inserted, deleted or
// changed against name, or "" if no name has fewer than below. It serves hints like
// "did you mean slots?".
func Nearest(name string, all func(yield func(string) bool), below int) string {
	best, n := "", 0
	if len(name) > nearestBytes {
		return ""
	}
	for other := range all {
		if n++; n > nearestNames {
			break
		}
		if d := distance(name, other, below); d < below {
			best, below = other, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or change to get from a to b,
// at most most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
