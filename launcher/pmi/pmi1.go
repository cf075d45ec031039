package pmi

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// message1 handles the first line of b.
func (e *Engine) message1(now time.Duration, c *client, b []byte, out *Out) int {
	n := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	if n < 0 {
		if len(b) >= maxLine {
			e.broken(c, out, "broke the PMI protocol: "+strconv.Itoa(len(b))+" bytes without an end of line")
			return len(b)
		}
		return 0
	}
	s := string(b[:n])
	switch {
	case c.block.open:
		e.blockLine(c, s, out)
	case s == "":
	case strings.HasPrefix(s, "mcmd="):
		if !e.expected(c, "mcmd", out) {
			break
		}
		c.block = block{open: true, cmd: clip(s[len("mcmd="):]), bytes: len(s)}
	default:
		l, err := parseLine(s)
		if err != nil {
			e.broken(c, out, "broke the PMI protocol: "+err.Error()+": \""+clip(s)+"\"")
			break
		}
		e.command1(now, c, l, out)
	}
	return n + 1
}

// expected reports whether c may send cmd now, and ends the job if not.
func (e *Engine) expected(c *client, cmd string, out *Out) bool {
	why := ""
	switch {
	case c.state == Finalized:
		why = "after finalize"
	case c.state == Fresh:
		why = "before init"
	case !c.v2 && (c.entry == waiting || c.entry == queued):
		why = "while in a barrier"
	case !c.v2 && c.due > 0:
		why = "before the answer to the last command"
	default:
		return true
	}
	e.broken(c, out, "broke the PMI protocol: "+clip(cmd)+" "+why)
	return false
}

func (e *Engine) command1(now time.Duration, c *client, l line, out *Out) {
	switch {
	case l.cmd == "abort":
		e.abort(c, out, l.val("exitcode"), l.val("message"))
		return
	case l.cmd == "init" && c.state == Fresh:
		e.init1(now, c, l, out)
		return
	case !e.expected(c, l.cmd, out):
		return
	}
	switch l.cmd {
	case "get_maxes":
		out.write(c.rank, "cmd=maxes kvsname_max="+strconv.Itoa(maxKvsname)+" keylen_max="+
			strconv.Itoa(maxKey)+" vallen_max="+strconv.Itoa(maxValue)+"\n")
	case "get_appnum":
		out.write(c.rank, "cmd=appnum appnum="+strconv.Itoa(int(c.appnum))+"\n")
	case "get_my_kvsname":
		out.write(c.rank, "cmd=my_kvsname kvsname="+e.cfg.Kvsname+"\n")
	case "get_universe_size":
		out.write(c.rank, "cmd=universe_size size="+strconv.Itoa(int(e.cfg.Universe))+"\n")
	case "put":
		e.put1(c, l, out)
	case "get":
		e.get1(c, l, out)
	case "barrier_in":
		if l.val("group") != "" {
			e.broken(c, out, "broke the PMI protocol: a barrier of a group, which PMI 1.1 does not have")
			return
		}
		e.enter(now, c, out)
	case "finalize":
		c.state, c.left = Finalized, now
		out.write(c.rank, "cmd=finalize_ack\n")
		e.progress(now, out)
	case "publish_name", "unpublish_name", "lookup_name":
		e.name1(now, c, l, out)
	case "spawn":
		out.write(c.rank, "cmd=spawn_result rc=-1 msg=spawn_is_an_mcmd\n")
	case "init":
		e.broken(c, out, "broke the PMI protocol: a second init")
	default:
		out.write(c.rank, "cmd="+clip(l.cmd)+"_result rc=-1 msg=unknown_command\n")
	}
}

// init1 answers the first line of a rank, which chooses the protocol.
func (e *Engine) init1(now time.Duration, c *client, l line, out *Out) {
	e.began = min(e.began, now)
	const refused = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"
	switch l.val("pmi_version") {
	case "1":
		c.state = Inited
		out.write(c.rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n")
	case "2":
		c.state, c.v2 = Inited, true
		out.write(c.rank, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
	case "":
		out.write(c.rank, refused)
		e.broken(c, out, "broke the PMI protocol: init without a version")
	default:
		out.write(c.rank, refused)
		out.Notes = append(out.Notes, "refused rank "+strconv.Itoa(int(c.rank))+" PMI version "+
			clip(l.val("pmi_version"))+": 1 and 2 are spoken")
	}
}

func (e *Engine) put1(c *client, l line, out *Out) {
	msg := "success"
	if l.val("kvsname") != e.cfg.Kvsname {
		msg = "wrong_kvsname"
	} else if err := e.kvs.put(l.val("key"), l.val("value")); err != "" {
		msg = err
	}
	out.write(c.rank, "cmd=put_result rc="+rc(msg)+" msg="+msg+"\n")
}

func rc(msg string) string {
	if msg == "success" {
		return "0"
	}
	return "-1"
}

func (e *Engine) get1(c *client, l line, out *Out) {
	key, ok := l.lookup("key")
	msg, val := "success", ""
	switch {
	case !ok || key == "":
		msg = "missing_key"
	case l.val("kvsname") != e.cfg.Kvsname:
		msg = "wrong_kvsname"
	default:
		if val, ok = e.lookup(key); !ok {
			msg = "key_" + clip(key) + "_not_found"
		}
	}
	if msg != "success" {
		val = "unknown"
	}
	out.write(c.rank, "cmd=get_result rc="+rc(msg)+" msg="+msg+" value="+val+"\n")
}

// lookup answers a get of either protocol.
func (e *Engine) lookup(key string) (string, bool) {
	if key == mappingKey {
		return e.cfg.Mapping, e.cfg.Mapping != ""
	}
	for _, p := range e.cfg.Preput {
		if p.Key == key {
			return p.Value, true
		}
	}
	return e.kvs.get(key)
}

const mappingKey = "PMI_process_mapping"

// blockLine takes the next line of an mcmd.
func (e *Engine) blockLine(c *client, s string, out *Out) {
	c.block.bytes += len(s) + 1
	if c.block.bytes > maxBlock {
		e.broken(c, out, "broke the PMI protocol: an mcmd of more than "+strconv.Itoa(maxBlock)+" bytes")
		return
	}
	if len(c.block.lines) >= maxBlockLines {
		e.broken(c, out, "broke the PMI protocol: an mcmd of more than "+strconv.Itoa(maxBlockLines)+" lines")
		return
	}
	if !c.block.add(s) {
		return
	}
	if c.block.cmd != "spawn" {
		out.write(c.rank, "cmd="+c.block.cmd+"_result rc=-1 msg=unknown_command\n")
		return
	}
	b := c.block
	c.block = block{}
	switch whole, tooLong := c.takeBlock(b); {
	case tooLong:
		e.broken(c, out, "broke the PMI protocol: a spawn of more than "+strconv.Itoa(maxBlock)+" bytes")
	case whole:
		e.spawn(c, out)
	}
}

// name1 is the PMI-1 form of the job's name service.
func (e *Engine) name1(now time.Duration, c *client, l line, out *Out) {
	op := map[string]nameOp{"publish_name": opPublish, "unpublish_name": opUnpublish, "lookup_name": opLookup}[l.cmd]
	e.askName(now, c, nameAsk{op: op, service: l.val("service"), port: l.val("port")}, "", out)
}

// nameAnswer1 sends c the answer of the name service.
func (e *Engine) nameAnswer1(c *client, a nameAnswer, out *Out) {
	head := [...]string{"cmd=publish_result ", "cmd=unpublish_result ", "cmd=lookup_result "}[a.op]
	if a.op == opLookup && a.msg == "success" {
		head += "port=" + a.port + " "
	}
	code := "0"
	if a.msg != "success" {
		code = "1"
	}
	out.write(c.rank, head+"info=ok rc="+code+" msg="+a.msg+"\n")
}
