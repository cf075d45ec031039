package record

// Pick is a run of numbers.
type Pick struct{ From, Count int32 }

// AppendPick adds a number to a list: a number that follows the last run makes the run longer.
func AppendPick(list []Pick, n int32) []Pick {
	if last := len(list) - 1; last >= 0 && list[last].From+list[last].Count == n {
		list[last].Count++
		return list
	}
	return append(list, Pick{From: n, Count: 1})
}
