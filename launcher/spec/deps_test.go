package spec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/launcher/spec"
)

// depsText writes what was read in one line.
func depsText(d spec.Deps) string {
	var parts []string
	for _, p := range d.List {
		text := p.When.String() + " " + p.Word
		if p.Corr {
			text = "corr " + p.Word
		}
		if p.Delay > 0 {
			text += " " + p.Delay.String()
		}
		parts = append(parts, text)
	}
	if d.Alone {
		parts = append(parts, "alone")
	}
	if d.Any {
		return strings.Join(parts, " or ")
	}
	return strings.Join(parts, "; ")
}

func TestDeps(t *testing.T) {
	for in, want := range map[string]string{
		"afterok:7":                     "afterok 7",
		"afterok:7,8":                   "afterok 7,8",
		"afterok:7:8,afterany:9":        "afterok 7; afterok 8; afterany 9",
		"afterok:7,8:9":                 "afterok 7,8; afterok 9",
		"afterok:last":                  "afterok last",
		"afterok:7-9:12.5-7,9:10.fit":   "afterok 7-9; afterok 12.5-7,9; afterok 10.fit",
		"afterok:10.project,afterany:9": "afterok 10.project; afterany 9",
		"afternotok:7?after:8":          "afternotok 7 or after 8",
		"after:7+10:8":                  "after 7 10m0s; after 8",
		"aftercorr:7":                   "corr 7",
		"singleton":                     "alone",
		"afterok:7,singleton":           "afterok 7; alone",
		"singleton,afterok:7":           "afterok 7; alone",
	} {
		got, err := spec.ReadDeps(in)
		if err != nil || depsText(got) != want {
			t.Errorf("ReadDeps(%q) = %s, %v, want %s", in, depsText(got), err, want)
		}
	}
	for _, in := range []string{"", "7", "afterok", "afterok:", "afterok:x", "afterok:0", "before:1", "afterok:7,", "afterok:7?8", "afterok:7,afterany:8?after:9", "afterok:7+1", "after:7+x", "singleton:7", "singleton?afterok:7", "afterok:7,singleton,8", ",", "?", "afterok:-7"} {
		if got, err := spec.ReadDeps(in); err == nil {
			t.Errorf("ReadDeps(%q) = %s, want an error", in, depsText(got))
		}
	}
}

// slurmDeps reads a --dependency of sbatch.
func slurmDeps(text string) (spec.Deps, error) {
	r, err := spec.ParseSbatch([]string{"--dependency=" + text, "script"}, func(string) string { return "" })
	if err != nil {
		return spec.Deps{}, err
	}
	return r.Client.Deps, nil
}

func TestSlurmDeps(t *testing.T) {
	for in, want := range map[string]string{
		"7":                            "afterany 7",
		"7:8":                          "afterany 7; afterany 8",
		"afterok:20:21,afterany:23":    "afterok 20; afterok 21; afterany 23",
		"afterok:20:21?afterany:23":    "afterok 20 or afterok 21 or afterany 23",
		"afterburstbuffer:7,after:8+5": "afterany 7; after 8 5m0s",
		"singleton":                    "alone",
	} {
		got, err := slurmDeps(in)
		if err != nil || depsText(got) != want {
			t.Errorf("-d %q = %s, %v, want %s", in, depsText(got), err, want)
		}
	}
	for _, in := range []string{"", "x", "expand:7", "afterok:1,afterok:2?afterok:3"} {
		if got, err := slurmDeps(in); err == nil {
			t.Errorf("-d %q = %s, want an error", in, depsText(got))
		}
	}
}

func TestBegin(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 11, 26, 15, 30, 20, 5, zone)
	for in, want := range map[string]string{
		"now":                  "2026-11-26T15:30:20",
		"90s":                  "2026-11-26T15:31:50",
		"1h30m":                "2026-11-26T17:00:20",
		"now+1hour":            "2026-11-26T16:30:20",
		"now+60":               "2026-11-26T15:31:20",
		"now + 2 days":         "",
		"now+2days":            "2026-11-28T15:30:20",
		"now+90s":              "2026-11-26T15:31:50",
		"16:00":                "2026-11-26T16:00:00",
		"15:00":                "2026-11-27T15:00:00",
		"15:30:30":             "2026-11-26T15:30:30",
		"4pm":                  "2026-11-26T16:00:00",
		"3:15PM":               "2026-11-27T15:15:00",
		"midnight":             "2026-11-27T00:00:00",
		"noon":                 "2026-11-27T12:00:00",
		"teatime":              "2026-11-26T16:00:00",
		"tomorrow":             "2026-11-27T00:00:00",
		"today":                "2026-11-26T00:00:00",
		"2026-12-01T10:00":     "2026-12-01T10:00:00",
		"2026-12-01t10:00:07":  "2026-12-01T10:00:07",
		"2026-12-01":           "2026-12-01T00:00:00",
		"12/01/26":             "2026-12-01T00:00:00",
		"12/01/26-10:00":       "2026-12-01T10:00:00",
		"120126":               "2026-12-01T00:00:00",
		"01/02":                "2027-01-02T00:00:00",
		"":                     "",
		"90":                   "",
		"25:00":                "",
		"now-1hour":            "",
		"now+":                 "",
		"now+1fortnight":       "",
		"2026-12-01T99:00":     "",
		"yesterday":            "",
		"2026-13-01":           "",
		"-5s":                  "",
		"now+99999999999weeks": "",
	} {
		got, err := spec.ReadBegin(in, now)
		text := ""
		if err == nil {
			text = time.Unix(0, got).In(zone).Format("2006-01-02T15:04:05")
		}
		if text != want {
			t.Errorf("ReadBegin(%q) = %s, %v, want %s", in, text, err, want)
		}
	}
}

func FuzzDeps(f *testing.F) {
	f.Add("afterok:7:8,afterany:9.5")
	f.Add("afterok:20:21?afterany:23")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := spec.ReadDeps(text)
		if err == nil && len(d.List) == 0 && !d.Alone {
			t.Errorf("%q waits for nothing", text)
		}
		for _, p := range d.List {
			if p.Word == "" || strings.ContainsAny(p.Word, ":?") {
				t.Errorf("%q names %q", text, p.Word)
			}
		}
		_, _ = slurmDeps(text)
		_, _ = spec.ReadBegin(text, time.Unix(0, 0))
		_ = fmt.Sprint(d)
	})
}

// Slurm's priorities count upwards, filch's downwards.
func TestSlurmPriority(t *testing.T) {
	for in, want := range map[string]int32{"--priority=7": -7, "--priority=TOP": -32768, "--priority=999999": -32768, "--nice": 100, "--nice=7": 7, "--nice=-3": -3, "--nice=99999": 32767} {
		r, err := spec.ParseSbatch([]string{in, "script"}, func(string) string { return "" })
		if err != nil || r.Request.Class != want || r.Client.Hold {
			t.Errorf("%s: class %d (%v), want %d", in, r.Request.Class, err, want)
		}
	}
	if r, err := spec.ParseSbatch([]string{"--priority=0", "script"}, func(string) string { return "" }); err != nil || !r.Client.Hold {
		t.Errorf("--priority=0 does not hold the job: %v", err)
	}
	for _, in := range []string{"--priority=x", "--priority=-1", "--nice=x", "--nice=99999999999"} {
		if _, err := spec.ParseSbatch([]string{in, "script"}, func(string) string { return "" }); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}
