package slurmenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// counts writes a count of each node as Slurm does, with repetitions folded: "2(x3),1".
func counts(of []int32) string {
	var parts []string
	for i := 0; i < len(of); {
		same := 1
		for i+same < len(of) && of[i+same] == of[i] {
			same++
		}
		part := strconv.Itoa(int(of[i]))
		if same > 1 {
			part += "(x" + strconv.Itoa(same) + ")"
		}
		parts = append(parts, part)
		i += same
	}
	return strings.Join(parts, ",")
}

// Counts reads what counts writes; nil for another text.
func Counts(text string) (of []int32) {
	for part := range strings.SplitSeq(text, ",") {
		count, times, repeated := strings.Cut(strings.TrimSuffix(part, ")"), "(x")
		n, err := strconv.ParseInt(count, 10, 32)
		k := int64(1)
		if err == nil && repeated {
			k, err = strconv.ParseInt(times, 10, 32)
		}
		if err != nil || k < 1 || int64(len(of))+k > countsMax {
			return nil
		}
		of = append(of, slices.Repeat([]int32{int32(n)}, int(k))...)
	}
	return of
}

// countsMax bounds the nodes of a list of counts.
const countsMax = 1 << 20

// Hostlist writes nodes in their order, with runs of
// numbers folded: "n[1-3,7],login".
func Hostlist(nodes []filch.NodeName) string {
	var b strings.Builder
	prefix, open := "", false
	for i := 0; i < len(nodes); {
		head, digits := splitNumber(nodes[i])
		run := 1
		for i+run < len(nodes) && follows(nodes[i+run-1], nodes[i+run]) {
			run++
		}
		_, last := splitNumber(nodes[i+run-1])
		more := i+run < len(nodes) && sameFamily(nodes[i], nodes[i+run])
		if open && head == prefix {
			b.WriteByte(',')
		} else {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(head)
			if open = digits != "" && (run > 1 || more); open {
				b.WriteByte('[')
			}
			prefix = head
		}
		b.WriteString(digits)
		if run > 1 {
			b.WriteByte('-')
			b.WriteString(last)
		}
		if open && !more {
			b.WriteByte(']')
			open = false
		}
		i += run
	}
	return b.String()
}

// splitNumber cuts a name before its last digits.
func splitNumber(n filch.NodeName) (head, digits string) {
	s := string(n)
	head = strings.TrimRight(s, "0123456789")
	return head, s[len(head):]
}

// sameFamily reports whether two names can share brackets.
func sameFamily(a, b filch.NodeName) bool {
	ah, ad := splitNumber(a)
	bh, bd := splitNumber(b)
	return ah == bh && ad != "" && bd != ""
}

// follows reports whether b is the next name after a: n9 n10, n09 n10.
func follows(a, b filch.NodeName) bool {
	ah, ad := splitNumber(a)
	bh, bd := splitNumber(b)
	if ah != bh || ad == "" || len(ad) > 9 {
		return false
	}
	n, err := strconv.Atoi(ad)
	return err == nil && fmt.Sprintf("%0*d", len(ad), n+1) == bd
}
