//go:build root

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// process is one process of a piece of real work: a shell's line, with the files
// that it reads and writes below one folder.
type process struct {
	Name    string   `json:"name"`
	Run     string   `json:"run"`
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs"`
}

// workflowOf is the steps in filch's own form.
func workflowOf(t *testing.T, name string, steps []process) []byte {
	t.Helper()
	b, err := json.MarshalIndent(map[string]any{"filch": 1, "name": name, "tasks": steps}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serial runs steps one after the other in a folder, without any launcher: what
// comes out is what every other run must give.
func serial(t *testing.T, dir string, steps []process) {
	t.Helper()
	for i := range steps {
		for _, f := range steps[i].Outputs {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", steps[i].Run)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), `stat="ERROR"`) {
			t.Fatalf("%s, on its own: %v: %s", steps[i].Name, err, out)
		}
	}
}

// mosaic is a Montage mosaic of side x side images, which the toolkit makes
// itself. Which images overlap is known when their headers are: the steps after
// that are made from the serial run's table.
type mosaic struct {
	side   int
	steps  []process
	inputs []string // there before
}

const mosaicPixels = 200

// newMosaic writes the inputs into dir, runs all steps there, and returns them.
func newMosaic(t *testing.T, dir string, side int) *mosaic {
	t.Helper()
	m := &mosaic{side: side}
	levels := m.sky(t, dir)
	m.project(levels)
	serial(t, dir, m.steps)
	done := len(m.steps)
	m.match(t, filepath.Join(dir, "diffs.tbl"))
	serial(t, dir, m.steps[done:])
	return m
}

func (m *mosaic) each(do func(name string)) {
	for i := range m.side {
		for j := range m.side {
			do(fmt.Sprintf("%d_%d", i, j))
		}
	}
}

func (m *mosaic) all(format string) (names []string) {
	m.each(func(n string) { names = append(names, fmt.Sprintf(format, n)) })
	return names
}

// sky writes the headers of the images and of the mosaic, and a list of stars;
// it returns the brightness of each image's corners.
func (m *mosaic) sky(t *testing.T, dir string) map[string]string {
	t.Helper()
	const pixel, ra, dec = 2.0 / 3600, 150.0, 2.0 // degrees
	step := mosaicPixels * pixel * 0.75           // a quarter overlaps
	random := rand.New(rand.NewPCG(7, 0))
	between := func(a, b float64) float64 { return a + random.Float64()*(b-a) }
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m.inputs = append(m.inputs, name)
	}
	header := func(name string, ra, dec, turn float64, size int) {
		write(name, fmt.Sprintf("SIMPLE  = T\nBITPIX  = -64\nNAXIS   = 2\nNAXIS1  = %d\nNAXIS2  = %d\nCTYPE1  = 'RA---TAN'\nCTYPE2  = 'DEC--TAN'\n"+
			"CRVAL1  = %.8f\nCRVAL2  = %.8f\nCRPIX1  = %.1f\nCRPIX2  = %.1f\nCDELT1  = %.10f\nCDELT2  = %.10f\nCROTA2  = %.6f\nEQUINOX = 2000.0\nEND\n",
			size, size, ra, dec, float64(size)/2+0.5, float64(size)/2+0.5, -pixel, pixel, turn))
	}
	middle := float64(m.side-1) / 2
	levels := map[string]string{}
	for i := range m.side {
		for j := range m.side {
			name := fmt.Sprintf("%d_%d", i, j)
			header("raw_"+name+".hdr", ra+(float64(i)-middle)*step, dec+(float64(j)-middle)*step, between(-2, 2), mosaicPixels)
			levels[name] = fmt.Sprintf("%.2f %.2f %.2f %.2f", between(50, 150), between(50, 150), between(50, 150), between(50, 150))
		}
	}
	header("region.hdr", ra, dec, 0, int(mosaicPixels*(0.75*float64(m.side-1)+1)*1.05))
	half := step*float64(m.side)/2 + 0.05
	var stars strings.Builder
	stars.WriteString("|     ra     |    dec     |   mag    |\n|   double   |   double   |  double  |\n")
	for range 150 * m.side * m.side {
		fmt.Fprintf(&stars, " %12.7f %12.7f %10.4f\n", between(ra-half, ra+half), between(dec-half, dec+half), between(8, 14))
	}
	write("stars.tbl", stars.String())
	// Else the order of the images is that of the folder.
	list := fmt.Sprintf("|%-40s|\n|%-40s|\n", "fname", "char")
	m.each(func(n string) { list += fmt.Sprintf(" %-40s\n", "p_"+n+".fits") })
	write("plist.tbl", list)
	return levels
}

// project makes the images, brings them to the mosaic's projection, and finds
// out which overlap.
func (m *mosaic) project(levels map[string]string) {
	m.each(func(n string) {
		m.add("make_"+n, fmt.Sprintf("mMakeImg -n 2.0 -b %s -t stars.tbl mag 3.0 EQUJ 2000 14 mag gaussian raw_%s.hdr raw/%s.fits", levels[n], n, n),
			[]string{"stars.tbl", "raw_" + n + ".hdr"}, "raw/"+n+".fits")
	})
	m.each(func(n string) {
		m.add("project_"+n, fmt.Sprintf("mProject -X raw/%s.fits proj/p_%s.fits region.hdr", n, n),
			[]string{"raw/" + n + ".fits", "region.hdr"}, "proj/p_"+n+".fits")
	})
	m.add("images", "mImgtbl -t plist.tbl proj images.tbl", append(m.all("proj/p_%s.fits"), "plist.tbl"), "images.tbl")
	m.add("overlaps", "mOverlaps images.tbl diffs.tbl", []string{"images.tbl"}, "diffs.tbl")
}

// match compares each pair of images that overlap, evens out their backgrounds
// and puts them together.
func (m *mosaic) match(t *testing.T, table string) {
	t.Helper()
	b, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var fits []string
	for k, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[2:] {
		f := strings.Fields(line) // number, number, image, image, what to call their difference
		one, other, diff, fit := "proj/"+f[2], "proj/"+f[3], "diff/"+f[4], fmt.Sprintf("fit/%d.tbl", k+1)
		m.add(fmt.Sprintf("diff_%d", k+1), fmt.Sprintf("mDiff -n %s %s %s region.hdr", one, other, diff), []string{one, other, "region.hdr"}, diff)
		m.add(fmt.Sprintf("fit_%d", k+1), fmt.Sprintf("sed -n '1,2p;%dp' diffs.tbl >pair_%d.tbl; mFitExec pair_%d.tbl %s diff", k+3, k+1, k+1, fit),
			[]string{"diffs.tbl", diff}, fit)
		fits = append(fits, fit)
	}
	m.add("model", "{ head -1 "+fits[0]+"; grep -hv '^|' "+strings.Join(fits, " ")+"; } >fits.tbl; mBgModel images.tbl fits.tbl corrections.tbl",
		append(fits, "images.tbl"), "corrections.tbl")
	m.each(func(n string) {
		p := "p_" + n + ".fits"
		m.add("background_"+n, "cd proj; mBackground -n -t "+p+" ../corr/"+p+" ../images.tbl ../corrections.tbl",
			[]string{"proj/" + p, "images.tbl", "corrections.tbl"}, "corr/"+p)
	})
	corrected := m.all("corr/p_%s.fits")
	m.add("corrected", "mImgtbl -t plist.tbl corr cimages.tbl", append(corrected, "plist.tbl"), "cimages.tbl")
	m.add("add", "mAdd -n -p corr cimages.tbl region.hdr mosaic.fits", append(corrected, "cimages.tbl", "region.hdr"), "mosaic.fits")
	m.add("view", "mViewer -ct 1 -gray mosaic.fits -1s max gaussian-log -out mosaic.png", []string{"mosaic.fits"}, "mosaic.png")
}

func (m *mosaic) add(name, run string, inputs []string, output string) {
	m.steps = append(m.steps, process{name, run, append([]string{}, inputs...), []string{output}})
}
