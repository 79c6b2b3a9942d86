package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"weir/internal/http1"
	"weir/proxy/decide"
)

// A form says which fields of a request to /check describe the request to decide about.
// Only those fields are read, and the asker overwrites each of them, so a client cannot
// change what is described.
type form struct {
	method, target, host string // field names; empty: the request's own
	allow                int    // status that admits the request
}

// The forms, by path.
var (
	formForwarded = form{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", 200} // Traefik, Caddy
	formOriginal  = form{"X-Original-Method", "X-Original-URI", "X-Original-Host", 204}    // nginx, HAProxy
	formPath      = form{allow: 200}                                                       // Envoy: the path follows pathPrefix
)

const pathPrefix = "/check/path"

// formOf returns the form of a path below /check/.
func formOf(path []byte) (f *form, ok bool) {
	switch {
	case string(path) == "/check/forwarded":
		return &formForwarded, true
	case string(path) == "/check/original":
		return &formOriginal, true
	case bytes.HasPrefix(path, []byte(pathPrefix+"/")):
		return &formPath, true
	}
	return nil, false
}

// A described is the request that another request describes.
//
// Owned by its loop.
type described struct {
	head   http1.Head
	client netip.Addr
	text   []byte // what head was parsed from, if fields describe it
}

// read reads the description in h, which from has sent. It borrows from h. The error is meant
// for the asker. trusted reports proxies in front of the asker.
func (d *described) read(f *form, h *http1.Head, from netip.Addr, trusted func(netip.Addr) bool) error {
	var err error
	if f == &formPath {
		err = d.cutPrefix(h)
	} else {
		err = d.parseFields(f, h)
	}
	if err != nil {
		return err
	}
	d.head.Fields = d.head.Fields[:0]
	for i := range h.Fields {
		if !f.describes(h.Fields[i].Name) && !h.Fields[i].ID.Hop() {
			d.head.Fields = append(d.head.Fields, h.Fields[i])
		}
	}
	d.client = decide.ClientOf(h.Fields, from, trusted)
	return nil
}

var errMalformed = errors.New("the described method, target or host is malformed")

// cutPrefix sets the head to h's own request line without pathPrefix. Since h is valid, so is
// what is left, except for a missing Host of HTTP/1.0.
func (d *described) cutPrefix(h *http1.Head) error {
	const n = len(pathPrefix)
	if !bytes.HasPrefix(h.Target, []byte(pathPrefix+"/")) { // http://…
		return fmt.Errorf("the target must begin with %s/", pathPrefix)
	}
	if len(h.Host) == 0 {
		return errMalformed
	}
	d.head = http1.Head{Method: h.Method, MethodText: h.MethodText, Target: h.Target[n:], Path: h.Path[n:], Query: h.Query, Host: h.Host, Fields: d.head.Fields}
	return nil
}

// parseFields sets the head to the request that the fields of a form describe.
func (d *described) parseFields(f *form, h *http1.Head) error {
	var line [3][]byte
	for i, name := range [...]string{f.method, f.target, f.host} {
		value, n := only(h, name)
		if n != 1 || len(value) == 0 {
			return fmt.Errorf("the field %s must appear once, and appears %d times", name, n)
		}
		line[i] = value
	}
	d.text = append(append(append(append(d.text[:0], line[0]...), ' '), line[1]...), " HTTP/1.1\r\nHost: "...)
	d.text = append(append(d.text, line[2]...), "\r\n\r\n"...)
	r := http1.NewRequestReader(nil)
	event, err := r.Next(d.text, &d.head)
	if err != nil || event.Kind != http1.HeadDone || event.N != len(d.text) {
		return errMalformed
	}
	return nil
}

// describes reports whether a field of that name is part of the description.
func (f *form) describes(name []byte) bool {
	return http1.EqualFold(name, f.method) || http1.EqualFold(name, f.target) || http1.EqualFold(name, f.host)
}

// only returns the value of the first field of a name, and how many there are.
func only(h *http1.Head, name string) (value []byte, n int) {
	for i := range h.Fields {
		if f := &h.Fields[i]; http1.EqualFold(f.Name, name) {
			if n++; n == 1 {
				value = f.Value
			}
		}
	}
	return value, n
}
