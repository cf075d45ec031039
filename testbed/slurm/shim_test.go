//go:build root

package slurm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/slurm"
)

// compare runs every line with the real srun and with the shim.
const compare = `
try() { # PATH NUMBER LINE
	d=$(mktemp -d) && cd "$d" || exit
	printf 'n1\nn4\n' >hosts; echo hello >text; printf "0 echo 'a  b'\n1 echo c\n" >two.conf
	printf '# a comment\n4-6       hostname\n1,7       echo  task:%%t\n0,2-3     echo  offset:%%o\n' >silly.conf
	printf '0 echo zero %%t\n1-2 echo off %%o\n3 sh -c "echo three; echo err >&2" 2>/dev/null\n' >four.conf
	printf '0 echo first\n* echo rest:%%t:%%o\n' >star.conf; printf '# nothing\n' >none.conf
	printf '0 printf %%%%s\\n "a  b" c\\ d\n1 echo '"'"'x # y'"'"' # z\n' >quote.conf; printf 'x echo\n' >bad.conf
	echo zero >in.0; echo one >in.1
	PATH=$1 bash -c "$3" >"$4/$2" 2>"$4/$2.err" </dev/null
	echo "[$?]" >>"$4/$2"
}
n=0
while IFS= read -r line <&3; do
	n=$((n + 1))
	try "$PATH" $n "$line" "$HOME/real"
	try "$HOME/shims:$PATH" $n "$line" "$HOME/ours"
done 3<"$HOME/lines"
`

// linesWithin bounds the lines of both sides.
const linesWithin = 15 * time.Minute

// TestShimSaysWhatSrunSays is the differential test.
func TestShimSaysWhatSrunSays(t *testing.T) {
	sayTheSame(t, "testdata/srun.lines", "filch up --slots 4 -- bash $HOME/compare.sh", "-N4", "-n16")
}

// TestShimPlacesAsSrun does the same in an allocation with unequal parts of its nodes: for
// filch, a run has the other slots of the third node.
func TestShimPlacesAsSrun(t *testing.T) {
	sayTheSame(t, "testdata/plane.lines", "filch up --slots 4 -- bash -c 'filch run --detach -w n3 -n 3 sleep 900 && bash $HOME/compare.sh'", "-N3", "-n9")
}

// sayTheSame runs command lines with the real srun and with the shim, by a script in an
// allocation.
func sayTheSame(t *testing.T, file, script string, options ...string) {
	t.Helper()
	r := newRig(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '!' {
			lines = append(lines, line)
		}
	}
	r.write("lines", strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "~ ", ""))
	for _, d := range []string{"real", "ours"} {
		if err := os.Mkdir(filepath.Join(r.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("compare.sh", compare)
	r.wait = linesWithin
	r.shims()
	if out, code := r.batch(script, options...); code != 0 {
		t.Fatalf("got exit code %d: %s", code, out)
	}
	same := 0
	for i, line := range lines {
		real, ours := r.read("real/"+strconv.Itoa(i+1)), r.read("ours/"+strconv.Itoa(i+1))
		if strings.HasPrefix(line, "~ ") {
			real, ours = renamed(real), renamed(ours)
		}
		if real == ours {
			same++
			continue
		}
		t.Errorf("%s\nsrun:\n%s%sfilch:\n%s%s", line, real, r.read(fmt.Sprintf("real/%d.err", i+1)), ours, r.read(fmt.Sprintf("ours/%d.err", i+1)))
	}
	t.Logf("figure: %d of %d srun command lines of %s say the same", same, len(lines), filepath.Base(file))
	r.clean()
}

// renamed gives the nodes names in the order in which they appear.
func renamed(text string) string {
	names := map[string]string{}
	text = regexp.MustCompile(`\bn[1-4]\b`).ReplaceAllStringFunc(text, func(n string) string {
		if names[n] == "" {
			names[n] = "node" + strconv.Itoa(len(names)+1)
		}
		return names[n]
	})
	return regexp.MustCompile(`\bn\[[-,1-4]*\]`).ReplaceAllString(text, "nodes")
}

// shims makes the shims in a folder of the test.
func (r *rig) shims(options ...string) {
	r.t.Helper()
	if _, code := r.run(append(append([]string{filepath.Join(world.dir, "bin", "filch"), "shim", "install"}, options...), filepath.Join(r.dir, "shims"))...); code != 0 {
		r.t.Fatal("filch shim install failed")
	}
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Error(err)
	}
	return string(b)
}

// shimCallMax is what a shim call may take, in milliseconds.
const shimCallMax = 15

// TestShimLoopAsksNobody is the loop that gets users' accounts throttled.
func TestShimLoopAsksNobody(t *testing.T) {
	r := newRig(t)
	r.shims()
	steps, calls := 300, 50
	if full() {
		steps, calls = 2000, 200
	}
	r.write("loop.sh", `export PATH=$HOME/shims:$PATH
real=$(command -v sdiag)
$real >before
for i in $(seq `+strconv.Itoa(steps)+`); do srun -Q -n1 sh -c 'echo $FILCH_NODE' & done >nodes; wait
begun=$(date +%s%N)
for i in $(seq `+strconv.Itoa(calls)+`); do srun -Q -n1 true || echo failed >>nodes; done
ended=$(date +%s%N)
$real >after
echo $(((ended - begun) / 1000)) >took
touch done`)
	id := r.submit(`cd $HOME; filch up --slots 4 -- bash loop.sh`, "-N4", "-n16")
	r.poll("the end of the loop", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "done"))
		return err == nil
	})
	if out, code := r.await(id); code != 0 {
		t.Errorf("got exit code %d: %s", code, out)
	}
	if got := strings.Count(r.read("nodes"), "\n"); got != steps {
		t.Errorf("%d of %d steps ran:\n%s", got, steps, r.read("nodes"))
	}
	before, after := slurm.ReadRPCs(r.read("before")), slurm.ReadRPCs(r.read("after"))
	for kind, n := range after {
		if n != before[kind] {
			t.Errorf("slurmctld served %d %s meanwhile, want none", n-before[kind], kind)
		}
	}
	us, _ := strconv.Atoi(strings.TrimSpace(r.read("took")))
	each := float64(us) / 1000 / float64(calls)
	t.Logf("figure: %d steps without a request to slurmctld, %.1f ms a call", steps, each)
	if full() && each > shimCallMax {
		t.Errorf("a shim call took %.1f ms, want at most %d", each, shimCallMax)
	}
	r.clean()
}

func TestMPIShims(t *testing.T) {
	r := newRig(t)
	r.shims()
	r.write("mpi.sh", `export PATH=$HOME/shims:$PATH
mpiexec -n 8 `+r.mpi()+` | grep -c 'of 8 is on'
mpirun -np 2 -l sh -c 'echo $FILCH_SIZE' | sort
mpiexec -n 1 -env A one sh -c 'echo $A $FILCH_RANK' : -n 2 -env A two sh -c 'echo $A $FILCH_RANK' | sort
echo text | mpiexec -n 2 sh -c 'cat'
mpirun --map-by ppr:2:node -np 4 sh -c 'echo $FILCH_NODE' | sort | uniq -c | awk '{print $1}'
mpirun -x B=3 -n 1 sh -c 'echo B is $B'
mpiexec -n 4 sh -c '[ $FILCH_RANK = 2 ] && exit 5; exec sleep 60'; echo "code $?"
mpiexec --nosuch 2>&1 | head -1
`)
	out, _ := r.batch(`filch up --slots 4 -- bash $HOME/mpi.sh`, "-N4", "-n16")
	match(t, out, `(?s)^8\n0: 2\n1: 2\none 0\ntwo 1\ntwo 2\ntext\n2\n2\nB is 3\n.*code 5\n`)
	match(t, out, `^mpiexec: filch does not know the option --nosuch: left to /usr/bin/mpiexec$`)
	r.clean()
}
