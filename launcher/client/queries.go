package client

import (
	"encoding/json"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Queries is a connection with many queries under way at the same time.
type Queries struct{ client *Client }

// Queries makes the client a connection for many queries; the client is used for nothing
// else from here on.
func (c *Client) Queries() *Queries { return &Queries{c} }

// Another opens another connection to the same launcher.
func (c *Client) Another() (*Client, error) { return DialDir(c.Dir, c.build) }

// Reply is the answer to a query with the number Req.
type Reply struct {
	Req  uint32
	Body []byte // JSON, or msgpack of a [wire.Packed]
	Err  error  // of this query alone
}

// Decode decodes the answer into v.
func (r *Reply) Decode(v any) error {
	if r.Err != nil {
		return r.Err
	}
	decode := json.Unmarshal
	if _, ok := v.(wire.Packed); ok {
		decode = wire.Unmarshal
	}
	if err := decode(r.Body, v); err != nil {
		return filch.Errorf(filch.Internal, "cannot read the launcher's answer: %s", err.Error())
	}
	return nil
}

// Send sends a query, and returns the number of the query.
func (q *Queries) Send(verb string, args ...string) (req uint32, err error) {
	c := q.client
	c.req++
	if err := c.conn.Send(wire.KindQuery, c.req, wire.Query{Verb: verb, Args: args}); err != nil {
		return 0, gone(verb)
	}
	return c.req, nil
}

// Next waits for the next reply, in the order of the answers. An error is final. A
// goroutine may call Next while another calls Send.
func (q *Queries) Next() (Reply, error) {
	for {
		f, err := q.client.conn.Read()
		switch {
		case err != nil:
			return Reply{}, gone("a query")
		case f.Kind == wire.KindRefusal:
			return Reply{}, wire.DecodeRefusal(f.Body)
		case f.Kind != wire.KindAnswer:
			continue
		}
		a, err := wire.DecodeAnswer(f.Body)
		if err != nil {
			return Reply{}, filch.Errorf(filch.Internal, "%s", err.Error())
		}
		r := Reply{Req: f.Req, Body: a.JSON}
		if a.Err != nil {
			r.Err = a.Err
		}
		return r, nil
	}
}

// Close ends the connection, and so a call of Next.
func (q *Queries) Close() { q.client.Close() }
