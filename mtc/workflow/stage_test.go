package workflow

import "testing"

func TestStagedNames(t *testing.T) {
	for _, c := range []struct {
		file, name string
		values     []string
		from, to   string
	}{
		{"data/a.in", "", nil, "home/u/data/a.in", "a.in"},
		{"/etc/../x/a.in", "b/c", nil, "x/a.in", "b/c"},
		{"{}", "input", []string{"../k/1.tif"}, "home/k/1.tif", "input"},
		{"{1}/{2}.dat", "{2}.{#}", []string{"p", "q"}, "home/u/p/q.dat", "q.7"},
		{"{}", "", []string{"two\nlines"}, "home/u/two\nlines", "two\nlines"},
		{"{}", "", []string{""}, "", ""},
		{"..", "", nil, "", ""},
		{"a", "../b", nil, "", ""},
		{"a", "/b", nil, "", ""},
		{"/", "", nil, "", ""},
	} {
		from, to, err := StagedIn("/home/u", c.file, c.name, c.values, 7)
		if from != c.from || to != c.to || (err == nil) != (c.to != "") {
			t.Errorf("%q:%q: got %q as %q, %v, want %q as %q", c.file, c.name, from, to, err, c.from, c.to)
		}
	}
	for _, c := range []struct {
		pattern string
		values  []string
		want    string
	}{
		{"*.out", nil, "*.out"},
		{"{.}-*.png", []string{"a[1]*.tif"}, `a\[1]\*-*.png`},
		{"r/{#}", []string{"x"}, "r/7"},
		{"../*", nil, ""},
		{"/tmp/*", nil, ""},
		{"[a", nil, ""},
		{"{}", []string{""}, ""},
	} {
		got, err := StagedOut(c.pattern, c.values, 7)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: got %q, %v, want %q", c.pattern, got, err, c.want)
		}
	}
}
