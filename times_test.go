package filch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

func TestReadTime(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute,
		"10": 10 * time.Minute, "0:30": 30 * time.Second, "90:90": 90*time.Minute + 90*time.Second, "1:30:00": 90 * time.Minute,
		"2-3": 51 * time.Hour, "1-1:30": 25*time.Hour + 30*time.Minute, "0-0:0:5": 5 * time.Second, "0": 0, "0s": 0,
	} {
		if got, err := filch.ReadTime(in); err != nil || got != want {
			t.Errorf("ReadTime(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " 1", "-1", "-5s", "+5", "+5s", "1:", ":1", "1:2:3:4", "1-", "1-2:3:4:5", "banana", "10x", "1h30", "1.5",
		"9999999999999999999", "9999999h", "3661-0", "0x10", "1_0", "infinite",
	} {
		var told *filch.Error
		got, err := filch.ReadTime(in)
		if !errors.As(err, &told) || strings.Contains(err.Error(), "time:") {
			t.Errorf("ReadTime(%q) = %v, %v, want an error of ours", in, got, err)
		}
	}
}
