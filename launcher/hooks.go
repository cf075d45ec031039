package launcher

import (
	"strings"

	"github.com/filch-hpc/filch"
)

// hookMax bounds a prolog or an epilog, in bytes.
const hookMax = 16 << 10

// Hooks is what a node does around each task of a job or around each rank.
type Hooks struct {
	PrivateTmp bool `json:"private_tmp,omitempty"` // a new folder as TMPDIR: of each task; of all ranks of a node

	// Commands for a shell, before and after each task or rank; "" none.
	Prolog string `json:"prolog,omitempty"`
	Epilog string `json:"epilog,omitempty"`
}

// hookScript runs a prolog, a program and an epilog: $1, $3... and $2. A prolog that fails
// is the end of the task or rank. Of the prolog's output, lines `export NAME=VALUE` and
// `unset NAME` change the environment of the program, and lines `print TEXT` are output of
// the program. The trap keeps the shell alive until the program has ended; a trapped signal
// is not ignored in the program. A program that a signal ended looks so from outside, too.
const hookScript = `p=$1 e=$2
shift 2
trap : TERM INT HUP
if [ -n "$p" ]; then
	o=$(/bin/sh -c "$p") || { c=$?; echo "filch: the prolog failed with $c: the program was not started" >&2; exit $c; }
	while IFS= read -r l; do
		case $l in
		"export "*=*) export "${l#export }" ;;
		"unset "*) unset "${l#unset }" ;;
		"print "*) printf '%s\n' "${l#print }" ;;
		esac
	done <<END_OF_PROLOG
$o
END_OF_PROLOG
fi
"$@"
c=$?
if [ -n "$e" ]; then
	FILCH_EXIT_CODE=$c /bin/sh -c "$e" || echo "filch: the epilog failed with $?" >&2
fi
if [ $c -gt 128 ] && [ $c -lt 193 ]; then
	trap - TERM INT HUP
	kill -$((c - 128)) $$
fi
exit $c`

// Check refuses commands that a shell cannot get.
func (h *Hooks) Check() error {
	for _, text := range []string{h.Prolog, h.Epilog} {
		if len(text) > hookMax || strings.IndexByte(text, 0) >= 0 {
			return filch.Errorf(filch.Invalid, "--prolog and --epilog have at most %d bytes each, without NUL; %d are given", hookMax, len(text)).WithHint("put the commands into a script")
		}
	}
	return nil
}

// Around puts the prolog and the epilog around a command; false: there are none.
func (h *Hooks) Around(argv []string) ([]string, bool) {
	if h.Prolog == "" && h.Epilog == "" {
		return argv, false
	}
	return append([]string{"/bin/sh", "-c", hookScript, "filch", h.Prolog, h.Epilog}, argv...), true
}
