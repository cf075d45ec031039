package cli

import (
	"strings"
	"testing"
	"time"
)

// Losses close to each other are one loss; after lossesMax losses a command gives up, and says how
// to go on.
func TestLossesEnd(t *testing.T) {
	var l Losses
	if l.Recent() {
		t.Fatal("a loss is recent before the first")
	}
	first, err := l.Next(7)
	if again, _ := l.Next(7); err != nil || !l.Recent() || again != first {
		t.Fatalf("the search ends at %v, then at %v, %v", first, again, err)
	}
	for n := 2; ; n++ {
		l.until = time.Now()
		if _, err = l.Next(7); err == nil && n <= lossesMax {
			continue
		}
		if n != lossesMax+1 || err == nil || !strings.Contains(err.Error(), "101 times") {
			t.Fatalf("loss %d: %v", n, err)
		}
		break
	}
}
