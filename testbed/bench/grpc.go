package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// This file speaks as much of etcd's gRPC as is measured: unary calls over
// HTTP/2 without TLS, and protocol buffers of a few fields. Its own client
// library would bring in some thirty modules for that.

// rpc calls one server.
type rpc struct {
	base   string
	client *http.Client
}

func newRPC(addr string) *rpc {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &rpc{base: "http://" + addr + "/etcdserverpb.KV/", client: &http.Client{
		Transport: &http.Transport{Protocols: &p}, Timeout: 10 * time.Second,
	}}
}

func (r *rpc) close() { r.client.CloseIdleConnections() }

// call does one call.
func (r *rpc) call(method string, message []byte) ([]byte, error) {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	req, err := http.NewRequest(http.MethodPost, r.base+method, bytes.NewReader(append(frame, message...)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	status, text := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // an answer without a body
		status, text = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" || len(b) < 5 || b[0] != 0 {
		return nil, fmt.Errorf("%s: status %s of HTTP %d: %s", method, status, resp.StatusCode, text)
	}
	return b[5:], nil
}

// The two kinds of fields that are used here.
const (
	wireVarint = 0
	wireBytes  = 2
)

func putVarint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field<<3|wireVarint)), v)
}

func putBytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field<<3|wireBytes))
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

var errProto = errors.New("malformed protocol buffer")

// fields calls f for each field of a message, with its number or its bytes.
func fields(b []byte, f func(field int, v uint64, data []byte)) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errProto
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return errProto
		}
		b = b[n:]
		switch tag & 7 {
		case wireVarint:
			f(int(tag>>3), v, nil)
		case wireBytes:
			if v > uint64(len(b)) {
				return errProto
			}
			f(int(tag>>3), 0, b[:v])
			b = b[v:]
		default:
			return errProto
		}
	}
	return nil
}
