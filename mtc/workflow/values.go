package workflow

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// scalar is the text of a value other than a list or map.
func (n *native) scalar(v *node, what string) (string, error) {
	if v.shape == shapeList || v.shape == shapeMap || v.shape == shapeNull {
		return "", n.src.errorf(v.line, "%s is %s, not text", what, v.shape)
	}
	if strings.ContainsRune(v.text, 0) {
		return "", n.src.errorf(v.line, "%s holds a NUL byte", what)
	}
	return v.text, nil
}

// text is a scalar with at least a byte.
func (n *native) text(v *node, what string) (string, error) {
	s, err := n.scalar(v, what)
	if err == nil && s == "" {
		err = n.src.errorf(v.line, "%s is empty", what)
	}
	return s, err
}

// texts is a list of texts, or a single one.
func (n *native) texts(v *node, what string) (texts []string, lines []int, err error) {
	if v.shape != shapeList {
		s, err := n.text(v, what)
		return []string{s}, []int{v.line}, err
	}
	for i := range v.items {
		s, err := n.scalar(&v.items[i], what)
		if err != nil {
			return nil, nil, err
		}
		texts, lines = append(texts, s), append(lines, v.items[i].line)
	}
	return texts, lines, nil
}

// ownKeys are the needs that a task may have.
var ownKeys = append([]string{"ranks"}, needKeys...)

// needs reads a task's needs, from the task or else from the defaults.
func (n *native) needs(task *Task, what string, m *node) error {
	for _, key := range ownKeys {
		v, of := m.find(key), what
		if v == nil && n.defaults != nil {
			v, of = n.defaults.find(key), "defaults"
		}
		if v == nil || key == "env" {
			continue
		}
		text, err := "", error(nil)
		if v.shape == shapeList && slices.Contains(listKeys[:], key) {
			var all []string
			all, _, err = n.texts(v, of+": "+key)
			text = strings.Join(all, ",")
		} else {
			text, err = n.text(v, of+": "+key)
		}
		if err == nil {
			if why := task.need(key, text); why != "" {
				err = n.src.errorf(v.line, "%s: %s: %s is not %s", of, key, quote(text), why)
			}
		}
		if err := n.problem(err); err != nil {
			return err
		}
	}
	return nil
}

// listKeys are the needs that may be written as lists.
var listKeys = [...]string{"retry_codes", "nodelist", "exclude", "resource"}

// need sets one of the needs; why describes the expected text.
func (task *Task) need(key, text string) (why string) {
	ok := false
	switch key {
	case "cpus":
		task.Need.CPUs, ok = count(text, 1, CPUsMax)
		why = "a number of slots from 1 to " + strconv.Itoa(CPUsMax)
	case "mem":
		task.Need.MemBytes, ok = memory(text)
		why = "a size like 500M or 4G; a bare number is mebibytes"
	case "gpus":
		kind, n, named := strings.Cut(text, ":")
		if !named {
			kind, n = "", text
		}
		_, bad := filch.ReadGPUs(n)
		ok = bad == nil && (!named || kind != "") && !strings.ContainsAny(kind, " ,=")
		task.Need.GPUs = text
		why = "a number of GPUs, a share of one such as 0.25, or KIND:NUMBER"
	case "time_limit":
		task.Need.TimeLimit, ok = timeSpan(text)
		ok = ok && task.Need.TimeLimit > 0 && task.Need.TimeLimit <= limitMax
		why = "a time like 90s, 10m, 1h30m or 1:30:00, at most ten years"
	case "time":
		task.Cost, ok = timeSpan(text)
		ok = ok && task.Cost <= CostMax*time.Second
		task.Cost = max(task.Cost, CostMin)
		why = "a time like 90s, 10m, 1h30m or 1:30:00; a bare number is whole minutes"
	case "retries":
		n, fits := count(text, 0, 1000)
		task.Need.Retries, ok = &n, fits
		why = "a number from 0 to 1000"
	case "retry_delay":
		task.Need.RetryDelay, ok = timeSpan(text)
		ok = ok && task.Need.RetryDelay <= retryDelayMax
		why = "a time like 30s or 5m, at most a day"
	case "retry_codes":
		task.Need.RetryCodes, ok = ParseCodes(text)
		why = "a list of exit codes from 1 to 255, like 75,100-110"
	case "nodelist":
		task.Need.Nodelist, ok = text, true // the client knows the names of nodes
	case "exclude":
		task.Need.Exclude, ok = text, true
	case "constraint":
		_, bad := filch.ReadConstraint(text)
		task.Need.Constraint, ok = text, bad == nil
		why = "labels joined by & and |, like a100 or 'a100&!slow'"
	case "resource":
		a, bad := filch.ReadAmounts(text)
		task.Need.Resource, ok = string(a), bad == nil && a != ""
		why = "a list like license=1,scratch=10"
	case "ranks", "nodes", "ranks_per_node", "mpi":
		why, ok = task.Need.Gang.set(key, text)
	case "once":
		task.Need.Once, ok = text == "true", text == "true" || text == "false"
		why = "true or false"
	}
	if ok {
		return ""
	}
	return why
}

// retryDelayMax bounds the wait before the first retry of a task.
const retryDelayMax = 24 * time.Hour

// Codes are the exit codes from From to To, with To.
type Codes struct{ From, To uint8 }

// codesMax bounds the ranges of a list of exit codes.
const codesMax = 64

// ParseCodes reads a list of exit codes and ranges: 75,100-110.
func ParseCodes(text string) (all []Codes, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			high = low
		}
		from, ok1 := count(low, 1, 255)
		to, ok2 := count(high, 1, 255)
		if !ok1 || !ok2 || to < from || len(all) == codesMax {
			return nil, false
		}
		all = append(all, Codes{uint8(from), uint8(to)})
	}
	return all, true
}

func count(text string, least, most int64) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return int32(n), err == nil && n >= least && n <= most
}

// memory reads 500 (mebibytes, as everywhere in filch), 500M, 4G, 1.5G.
func memory(text string) (int64, bool) {
	number, unit := text, int64(1)<<20
	if text != "" {
		if at := strings.IndexByte("KMGT", text[len(text)-1]&^0x20); at >= 0 {
			number, unit = text[:len(text)-1], int64(1)<<(10*(at+1))
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.ContainsAny(number, "xXpPiInN_") || !(f > 0) || f*float64(unit) > float64(SizeMax) {
		return 0, false
	}
	return int64(f * float64(unit)), true
}

// timeSpan reads a time, as everywhere in filch: a bare number is minutes.
func timeSpan(text string) (time.Duration, bool) {
	d, err := filch.ReadTime(text)
	return d, err == nil
}

// program is the name of a command's program, for people.
func program(argv []string) string {
	word := argv[0]
	if len(argv) == 3 && argv[0] == shellPath && argv[1] == "-c" {
		fields := strings.Fields(argv[2])
		for len(fields) > 1 && strings.Contains(fields[0], "=") {
			fields = fields[1:]
		}
		if len(fields) > 0 {
			word = fields[0]
		}
	}
	word = visible(path.Base(word))
	if len(word) > NameMax {
		word = word[:NameMax]
	}
	return word
}
