package pmi

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lengthBytes is the decimal length before every message of PMI-2, padded with
// spaces on either side: Slurm's client and MPICH's differ.
const lengthBytes = 6

// message2 handles the first message of b.
func (e *Engine) message2(now time.Duration, c *client, b []byte, out *Out) int {
	if len(b) < lengthBytes {
		return 0
	}
	n, ok := parseLength(b[:lengthBytes])
	if !ok || n > maxLine {
		e.broken(c, out, "broke the PMI protocol: a message with the length \""+clip(string(b[:lengthBytes]))+"\"")
		return len(b)
	}
	n += lengthBytes
	if len(b) < n {
		return 0
	}
	l, err := parseMessage(string(b[lengthBytes:n]))
	if err != nil {
		e.broken(c, out, "broke the PMI protocol: "+err.Error()+": \""+clip(string(b[lengthBytes:n]))+"\"")
		return n
	}
	e.command2(now, c, l, out)
	return n
}

func parseLength(b []byte) (int, bool) {
	s := strings.Trim(string(b), " ")
	if s == "" {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// parseMessage reads the body of a message of PMI-2: name=value; and again, with a
// semicolon inside a value doubled. The last semicolon may be missing.
func parseMessage(s string) (line, error) {
	var l line
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return line{}, errToken
		}
		if key == "" || len(key) > maxWord || strings.ContainsAny(key, ";\x00\n") {
			return line{}, errWord
		}
		val, n := unescape(rest)
		s = rest[n:]
		if l.cmd == "" {
			if key != "cmd" || val == "" {
				return line{}, errNoCommand
			}
			l.cmd = val
			continue
		}
		if len(l.attrs) == maxAttrs {
			return line{}, errAttrs
		}
		l.attrs = append(l.attrs, attr{key, val})
	}
	if l.cmd == "" {
		return line{}, errNoCommand
	}
	return l, nil
}

// unescape takes a value off s and returns the length in s, with the semicolon.
func unescape(s string) (string, int) {
	var b strings.Builder
	for i := 0; ; {
		j := strings.IndexByte(s[i:], ';')
		if j < 0 {
			return b.String() + s[i:], len(s)
		}
		b.WriteString(s[i : i+j])
		i += j + 1
		if i == len(s) || s[i] != ';' {
			return b.String(), i
		}
		b.WriteByte(';')
		i++
	}
}

// reply2 is an answer: the thread's id first, where the question had a thrid.
func reply2(cmd, thrid string, attrs ...attr) string {
	var b strings.Builder
	b.WriteString("cmd=" + strings.ReplaceAll(cmd, ";", ";;") + "-response;")
	if thrid != "" {
		b.WriteString("thrid=" + strings.ReplaceAll(thrid, ";", ";;") + ";")
	}
	for _, a := range attrs {
		b.WriteString(a.key + "=" + strings.ReplaceAll(a.val, ";", ";;") + ";")
	}
	return fmt.Sprintf("%*d%s", lengthBytes, b.Len(), b.String())
}

func (e *Engine) answer2(c *client, cmd, thrid string, out *Out, attrs ...attr) {
	out.write(c.rank, reply2(cmd, thrid, attrs...))
}

// fail2 answers a failed request.
func (e *Engine) fail2(c *client, cmd, thrid, why string, out *Out) {
	e.answer2(c, cmd, thrid, out, attr{"rc", "1"}, attr{"errmsg", why})
}

func (e *Engine) command2(now time.Duration, c *client, l line, out *Out) {
	thrid := l.val("thrid")
	if len(thrid) > maxWord {
		e.broken(c, out, "broke the PMI protocol: a thrid of "+strconv.Itoa(len(thrid))+" bytes")
		return
	}
	switch {
	case l.cmd == "abort":
		text := l.val("msg")
		if text == "" {
			text = l.val("message")
		}
		e.abort(c, out, l.val("exitcode"), text)
		return
	case !e.expected(c, l.cmd, out):
		return
	case !c.full && l.cmd != "fullinit":
		e.broken(c, out, "broke the PMI protocol: "+clip(l.cmd)+" before fullinit")
		return
	}
	switch l.cmd {
	case "fullinit":
		e.fullinit(c, l, thrid, out)
	case "job-getid":
		e.answer2(c, l.cmd, thrid, out, attr{"jobid", e.cfg.Kvsname}, attr{"rc", "0"})
	case "info-getjobattr":
		e.jobAttr(c, l, thrid, out)
	case "info-putnodeattr":
		e.putAttr(c, l, thrid, out)
	case "info-getnodeattr":
		e.getAttr(c, l, thrid, out)
	case "kvs-put":
		if err := e.kvs.put(l.val("key"), l.val("value")); err != "" {
			e.fail2(c, l.cmd, thrid, err, out)
			return
		}
		e.answer2(c, l.cmd, thrid, out, attr{"rc", "0"})
	case "kvs-get":
		e.get2(c, l, thrid, out)
	case "kvs-fence":
		if c.entry == waiting || c.entry == queued {
			e.broken(c, out, "broke the PMI protocol: kvs-fence while in a fence")
			return
		}
		c.thrid = strings.Clone(thrid)
		e.enter(now, c, out)
	case "finalize":
		c.state, c.left = Finalized, now
		e.answer2(c, l.cmd, thrid, out, attr{"rc", "0"})
		e.progress(now, out)
	case "name-publish", "name-unpublish", "name-lookup":
		op := map[string]nameOp{"name-publish": opPublish, "name-unpublish": opUnpublish, "name-lookup": opLookup}[l.cmd]
		e.askName(now, c, nameAsk{op: op, service: l.val("name"), port: l.val("port")}, strings.Clone(thrid), out)
	case "spawn":
		if c.spawn.open {
			e.fail2(c, l.cmd, thrid, "a spawn of this rank is not over", out)
			return
		}
		c.spawn = spawning{thrid: strings.Clone(thrid)}
		c.spawn.req.Apps, c.spawn.req.Preput, c.spawn.bad = readSpawn2(l)
		e.spawn(c, out)
	default:
		e.fail2(c, clip(l.cmd), thrid, "unknown command", out)
	}
}

func (e *Engine) fullinit(c *client, l line, thrid string, out *Out) {
	if c.full {
		e.broken(c, out, "broke the PMI protocol: a second fullinit")
		return
	}
	rank := strconv.Itoa(int(c.rank))
	if r := l.val("pmirank"); r != "" && r != rank {
		e.fail2(c, l.cmd, thrid, "this is the connection of rank "+rank, out)
		return
	}
	c.full = true
	e.answer2(c, l.cmd, thrid, out, attr{"pmi-version", "2"}, attr{"pmi-subversion", "0"},
		attr{"rank", rank}, attr{"size", strconv.Itoa(int(e.cfg.Size))},
		attr{"appnum", strconv.Itoa(int(c.appnum))}, attr{"debugged", "FALSE"},
		attr{"pmiverbose", "FALSE"}, attr{"rc", "0"})
}

// found answers a get of any kind.
func (e *Engine) found(c *client, cmd, thrid, val string, ok bool, out *Out) {
	if ok {
		e.answer2(c, cmd, thrid, out, attr{"found", "TRUE"}, attr{"value", val}, attr{"rc", "0"})
		return
	}
	e.answer2(c, cmd, thrid, out, attr{"found", "FALSE"}, attr{"rc", "0"})
}

func (e *Engine) jobAttr(c *client, l line, thrid string, out *Out) {
	val, ok := "", false
	switch l.val("key") {
	case mappingKey:
		val, ok = e.lookup(mappingKey)
	case "universeSize":
		val, ok = strconv.Itoa(int(e.cfg.Universe)), e.cfg.Universe > 0
	}
	e.found(c, l.cmd, thrid, val, ok, out)
}

func (e *Engine) get2(c *client, l line, thrid string, out *Out) {
	if id, ok := l.lookup("jobid"); ok && id != "" && id != e.cfg.Kvsname {
		e.fail2(c, l.cmd, thrid, "wrong_jobid", out)
		return
	}
	key := l.val("key")
	if key == "" {
		e.fail2(c, l.cmd, thrid, "missing_key", out)
		return
	}
	val, ok := e.lookup(key)
	e.found(c, l.cmd, thrid, val, ok, out)
}

func (e *Engine) putAttr(c *client, l line, thrid string, out *Out) {
	key, val := l.val("key"), l.val("value")
	_, again := e.attrs.vals[key]
	why := ""
	switch {
	case key == "":
		why = "missing_key"
	case len(key) > maxKey:
		why = "key_too_long"
	case len(val) > maxValue:
		why = "value_too_long"
	case !again && len(e.attrs.vals) >= maxAttrKeys:
		why = "too_many_attributes"
	}
	if why != "" {
		e.fail2(c, l.cmd, thrid, why, out)
		return
	}
	if e.attrs.vals == nil {
		e.attrs.vals = map[string]string{}
	}
	e.attrs.vals[strings.Clone(key)] = strings.Clone(val)
	e.answer2(c, l.cmd, thrid, out, attr{"rc", "0"})
	keep := e.attrs.waiting[:0]
	for _, w := range e.attrs.waiting {
		if w.key != key {
			keep = append(keep, w)
			continue
		}
		o := &e.ranks[e.at[w.rank]]
		o.due--
		e.found(o, "info-getnodeattr", w.thrid, val, true, out)
	}
	e.attrs.waiting = keep
}

// getAttr answers at once, or with wait=TRUE when another rank of this node has put the
// attribute; only the asking rank, or the asking thread, waits.
func (e *Engine) getAttr(c *client, l line, thrid string, out *Out) {
	key := l.val("key")
	val, ok := e.attrs.vals[key]
	if ok || l.val("wait") != "TRUE" {
		e.found(c, l.cmd, thrid, val, ok, out)
		return
	}
	if c.due >= maxDue {
		e.fail2(c, l.cmd, thrid, "too_many_requests", out)
		return
	}
	c.due++
	e.attrs.waiting = append(e.attrs.waiting, attrWait{c.rank, strings.Clone(thrid), strings.Clone(key)})
}

// nameAnswer2 is the PMI-2 form of an answer of the name service.
func (e *Engine) nameAnswer2(c *client, a nameAnswer, thrid string, out *Out) {
	cmd := [...]string{"name-publish", "name-unpublish", "name-lookup"}[a.op]
	switch {
	case a.msg != "success" && a.op == opLookup:
		e.answer2(c, cmd, thrid, out, attr{"found", "FALSE"}, attr{"rc", "1"}, attr{"errmsg", a.msg})
	case a.msg != "success":
		e.fail2(c, cmd, thrid, a.msg, out)
	case a.op == opLookup:
		e.answer2(c, cmd, thrid, out, attr{"port", a.port}, attr{"found", "TRUE"}, attr{"rc", "0"})
	default:
		e.answer2(c, cmd, thrid, out, attr{"rc", "0"})
	}
}
