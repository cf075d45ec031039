package filch

import "fmt"

type count interface{ ~int | ~int32 | ~int64 }

// Plural is a number with its noun: "1 rank", "2 ranks".
func Plural[N count](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Agree(n, noun, noun+"s"))
}

// Agree is the form of a word that goes with a number: "is" with 1, "are" with others.
func Agree[N count](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
