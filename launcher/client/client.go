package client

import (
	"cmp"
	"encoding/json"
	"net"
	"os"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Options name the wanted launcher; the zero value means the only launcher here.
type Options struct {
	Instance string
	Node     string
	Build    string // of this binary
}

// Client is a connection to a launcher.
type Client struct {
	Dir  place.Dir // of the launcher
	conn *wire.Conn
	sock net.Conn
	req  uint32
	lost bool // by a query

	submitted time.Time // when a job was, as long as the launcher has not answered; else zero
	name      string    // of the submitted job
	patience  patience

	build string
}

// Dial connects to the launcher named by o. The greeting is queued and goes out with
// the first request.
func Dial(o Options) (*Client, error) {
	sock, dir, err := place.Connect(place.Wanted{Instance: o.Instance, Node: o.Node})
	if err != nil {
		return nil, err
	}
	return greet(sock, dir, o.Build)
}

// DialDir connects to the launcher of a state directory.
func DialDir(dir place.Dir, build string) (*Client, error) {
	sock, err := net.Dial("unix", dir.Socket())
	if err != nil {
		return nil, filch.Errorf(filch.Unavailable, "the launcher of %s on %s does not answer", dir.Instance, dir.Node)
	}
	return greet(sock, dir, build)
}

// Await is DialDir for a launcher that may be away: it is waited for as long as a [Run] looks
// for its launcher.
func Await(dir place.Dir, build string) (*Client, error) {
	for end := time.Now().Add(RedialWait); ; time.Sleep(redialPause) {
		c, err := DialDir(dir, build)
		if err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

func greet(sock net.Conn, dir place.Dir, build string) (*Client, error) {
	c := &Client{Dir: dir, conn: wire.NewConn(sock), sock: sock, build: build, patience: answer}
	hello, err := wire.EncodeHello(wire.Hello{Role: "client", Build: build, PID: int32(os.Getpid())})
	if err == nil {
		err = c.conn.WriteRaw(wire.KindHello, 0, hello)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection. A run attached to the connection ends too.
func (c *Client) Close() { _ = c.conn.Close() }

// The first answer to a submission: a launcher answers at once, unless its machine is overloaded or
// its process was stopped.
var answer = patience{voice: 5 * time.Second, wait: 30 * time.Second}

// patience is how long a client waits for the first answer to a submission.
type patience struct {
	voice time.Duration // then the client of a run hears that no answer came
	wait  time.Duration // then the submission fails
}

// read reads a frame. The first frame after a submission has to come within some time.
func (c *Client) read(within time.Duration) (wire.Frame, error) {
	if c.submitted.IsZero() {
		return c.conn.Read()
	}
	_ = c.sock.SetReadDeadline(c.submitted.Add(within))
	f, err := c.conn.Read()
	if err == nil {
		c.submitted = time.Time{}
		_ = c.sock.SetReadDeadline(time.Time{})
	}
	return f, err
}

// unanswered is the error of a submission without an answer: unknown remains whether the job will
// be accepted.
func (c *Client) unanswered() *filch.Error {
	look := "The job may still be accepted: look for " + cmp.Or(c.name, "the job") + " in filch ps -a before you submit again"
	switch trouble, err := c.trouble(); {
	case err != nil:
		return filch.Errorf(filch.Timeout, "the launcher of %s on %s did not answer the submission within %v", c.Dir.Instance, c.Dir.Node, c.patience.wait).
			WithHint("the process may be stopped, or its machine overloaded: see filch doctor. %s", look)
	case trouble != "":
		return filch.Errorf(filch.Timeout, "the submission was not recorded within %v: %s", c.patience.wait, trouble).WithHint("%s", look)
	}
	return filch.Errorf(filch.Timeout, "the submission was not recorded within %v", c.patience.wait).WithHint("filch doctor names the fault. %s", look)
}

// troubleWait bounds the question of a client that gives up.
const troubleWait = 2 * time.Second

// trouble is [Client.StoreTrouble] over another connection.
func (c *Client) trouble() (string, error) {
	another, err := c.Another()
	if err != nil {
		return "", err
	}
	defer another.Close()
	return another.StoreTrouble(min(c.patience.wait, troubleWait))
}

// StoreTrouble asks the launcher why it keeps no records; "" without an error: the launcher
// answers, and knows no reason.
func (c *Client) StoreTrouble(within time.Duration) (string, error) {
	text, err := c.Query(within, wire.VerbRoster, wire.OnlyHere)
	var list []wire.RosterInfo
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Trouble, nil
}

// Lost reports whether a query has found the connection closed.
func (c *Client) Lost() bool { return c.lost }

// Query sends a query and waits at most d for the answer, which is JSON.
func (c *Client) Query(d time.Duration, verb string, args ...string) ([]byte, error) {
	c.req++
	if err := c.conn.Send(wire.KindQuery, c.req, wire.Query{Verb: verb, Args: args}); err != nil {
		c.lost = true
		return nil, gone(verb)
	}
	if d > 0 {
		_ = c.sock.SetReadDeadline(time.Now().Add(d))
		defer func() { _ = c.sock.SetReadDeadline(time.Time{}) }()
	}
	for {
		f, err := c.conn.Read()
		if err != nil {
			if os.IsTimeout(err) {
				return nil, filch.Errorf(filch.Timeout, "the launcher did not answer %s within %v", verb, d)
			}
			c.lost = true
			return nil, gone(verb)
		}
		switch {
		case f.Kind == wire.KindRefusal:
			return nil, wire.DecodeRefusal(f.Body)
		case f.Kind != wire.KindAnswer || f.Req != c.req:
			continue // late answer to an abandoned query
		}
		a, err := wire.DecodeAnswer(f.Body)
		if err != nil {
			return nil, filch.Errorf(filch.Internal, "%s", err.Error())
		}
		if a.Err != nil {
			return a.JSON, a.Err
		}
		return a.JSON, nil
	}
}

// Store does operations on the shared store through this launcher, and waits at most
// for wait until the operations are done; the result of an unfinished operation says
// so.
func (c *Client) Store(wait time.Duration, ops ...dht.Op) ([]dht.Result, error) {
	c.req++
	if err := c.conn.Send(wire.KindOps, c.req, wire.Ops{Wait: wait, Ops: ops}); err != nil {
		return nil, gone("store operations")
	}
	_ = c.sock.SetReadDeadline(time.Now().Add(wait + storeSlack))
	defer func() { _ = c.sock.SetReadDeadline(time.Time{}) }()
	for {
		f, err := c.conn.Read()
		switch {
		case err != nil && os.IsTimeout(err):
			return nil, filch.Errorf(filch.Timeout, "the launcher did not answer %d store operations within %v", len(ops), wait)
		case err != nil:
			return nil, gone("store operations")
		case f.Kind == wire.KindRefusal:
			return nil, wire.DecodeRefusal(f.Body)
		case f.Kind != wire.KindResults || f.Req != c.req:
			continue
		}
		var r wire.Results
		if err := wire.Unmarshal(f.Body, &r); err != nil || len(r.Results) != len(ops) {
			return nil, filch.Errorf(filch.Internal, "the launcher answered %d of %d operations: %v", len(r.Results), len(ops), err)
		}
		return r.Results, nil
	}
}

// storeSlack is how much longer than wait the launcher's answer may take.
const storeSlack = 2 * time.Second

func gone(verb string) error {
	return filch.Errorf(filch.Unavailable, "the launcher closed the connection before answering %s", verb)
}
