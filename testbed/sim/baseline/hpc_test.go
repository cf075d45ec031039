package baseline

import "testing"

// TestCloudKonGangs: jobs of 4, 8 and 16 tasks, four worker threads an instance; fewer jobs a second
// with more tasks, more with more instances, and up to 205 a second (CloudKon, III.C.2, figure 5).
// The paper's text does not say with how many instances.
func TestCloudKonGangs(t *testing.T) {
	rate := func(instances, ranks int) float64 {
		l := launched(t, Between(4*instances, 5*instances, ranks, ranks, 0), SQSForGangs.Run)
		t.Logf("figure: %d instances, jobs of %d: %.0f jobs a second, %.1f messages a job", instances, ranks, l.Rate, l.Messages)
		return l.Rate
	}
	few, many := rate(8, 4), rate(64, 4)
	if half, quarter := rate(64, 8), rate(64, 16); half >= many || quarter >= half {
		t.Errorf("%.0f jobs of 4 tasks a second, %.0f of 8, %.0f of 16", many, half, quarter)
	}
	if few > 205 || many < 205 {
		t.Errorf("%.0f jobs of 4 tasks a second with 8 instances and %.0f with 64, want 205 between", few, many)
	}
}

// TestNoNodeForTheManager: a job of all nodes never starts, since its manager takes one more.
func TestNoNodeForTheManager(t *testing.T) {
	g := Between(8, 1, 8, 8, 0)
	if r, err := SQSForGangs.Run(&g); err == nil {
		t.Errorf("a job of all nodes ran: %+v", r)
	}
}
