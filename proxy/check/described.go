package check

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

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
	text   []byte // text that head was parsed from
}

// read parses the description in h, which from has sent. The error is meant for the
// asker. trusted reports proxies in front of the asker.
func (d *described) read(f *form, h *http1.Head, from netip.Addr, trusted func(netip.Addr) bool) error {
	line := [...][]byte{h.MethodText, h.Target, h.Host}
	if f.method == "" {
		if !bytes.HasPrefix(h.Target, []byte(pathPrefix+"/")) { // http://…
			return fmt.Errorf("the target must begin with %s/", pathPrefix)
		}
		line[1] = bytes.TrimPrefix(h.Target, []byte(pathPrefix))
	}
	for i, name := range [...]string{f.method, f.target, f.host} {
		if name == "" {
			continue
		}
		value, n := only(h, name)
		if n != 1 || len(value) == 0 {
			return fmt.Errorf("the field %s must appear once, and appears %d times", name, n)
		}
		line[i] = value
	}
	d.text = append(append(append(append(d.text[:0], line[0]...), ' '), line[1]...), " HTTP/1.1\r\nHost: "...)
	d.text = append(append(d.text, line[2]...), "\r\n\r\n"...)
	r := http1.NewRequestReader(nil)
	fields := d.head.Fields
	event, err := r.Next(d.text, &d.head)
	if err != nil || event.Kind != http1.HeadDone || event.N != len(d.text) {
		return fmt.Errorf("the described method, target or host is malformed")
	}
	d.head.Fields = fields[:0]
	for i := range h.Fields {
		if !f.describes(h.Fields[i].Name) && !h.Fields[i].ID.Hop() {
			d.head.Fields = append(d.head.Fields, h.Fields[i])
		}
	}
	d.client = decide.ClientOf(h.Fields, from, trusted)
	return nil
}

// describes reports whether a field of that name is part of the description.
func (f *form) describes(name []byte) bool {
	for _, known := range [...]string{f.method, f.target, f.host} {
		if known != "" && strings.EqualFold(string(name), known) {
			return true
		}
	}
	return false
}

// only returns the value of the first field of a name, and how many there are.
func only(h *http1.Head, name string) (value []byte, n int) {
	for i := range h.Fields {
		if f := &h.Fields[i]; len(f.Name) == len(name) && strings.EqualFold(string(f.Name), name) {
			if n++; n == 1 {
				value = f.Value
			}
		}
	}
	return value, n
}
