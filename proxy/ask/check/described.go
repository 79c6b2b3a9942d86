package check

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// A form says which fields of a request to /check describe the request to decide about.
// Only those fields are read, and the asker overwrites each of them, so a client cannot
// change what is described.
type form struct {
	names [3]string // of the fields with the method, the target and the host; empty: the request's own
	allow int       // status that admits the request
}

// The forms, by path.
var (
	formForwarded = form{[...]string{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"}, 200} // Traefik, Caddy
	formOriginal  = form{[...]string{"X-Original-Method", "X-Original-URI", "X-Original-Host"}, 204}    // nginx, HAProxy
	// Envoy: the path follows pathPrefix
	formPath = form{allow: 200}
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
	parts  [3]part
	others []http1.Field // that do not describe it
}

// A part is what the fields of one name of a form say.
type part struct {
	value []byte // of the first
	n     int    // how many there are
}

// read reads the description in h, which from has sent. It borrows from h. The error is meant
// for the asker. trusted reports proxies in front of the asker.
func (d *described) read(f *form, h *http1.Head, from netip.Addr, trusted func(netip.Addr) bool) error {
	var err error
	d.split(f, h)
	if f == &formPath {
		err = d.cutPrefix(h)
	} else {
		err = d.parseFields(f)
	}
	if err != nil {
		return err
	}
	d.head.Fields, d.others = d.others, d.head.Fields
	d.client = decide.ClientOf(h.Fields, from, trusted)
	return nil
}

// split separates the fields of h that describe the request from its own.
func (d *described) split(f *form, h *http1.Head) {
	d.parts, d.others = [3]part{}, d.others[:0]
	for i := range h.Fields {
		field := &h.Fields[i]
		k := 0
		for k < len(f.names) && (len(field.Name) != len(f.names[k]) || !http1.EqualFold(field.Name, f.names[k])) {
			k++
		}
		if k == len(f.names) {
			if !field.ID.Hop() {
				d.others = append(d.others, *field)
			}
			continue
		}
		if d.parts[k].n++; d.parts[k].n == 1 {
			d.parts[k].value = field.Value
		}
	}
}

// errMalformed is the error of a request that cannot be described.
var errMalformed = errors.New("the described method or target is malformed")

// errFragment is the error of a target that some applications read with what follows #, and others without.
var errFragment = errors.New("the described target has a fragment")

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
	d.head = http1.Head{Method: h.Method, MethodText: h.MethodText, Target: h.Target[n:], Path: h.Path[n:],
		Query: h.Query, Host: h.Host, Fields: d.head.Fields}
	return nil
}

// parseFields sets the head to the request that the fields of a form describe. A Host that is empty or
// malformed, which some reverse proxies accept, is read like a missing one.
func (d *described) parseFields(f *form) error {
	for i, name := range f.names {
		switch p := &d.parts[i]; {
		case p.n != 1:
			return fmt.Errorf("the field %s must appear once, and appears %d times", name, p.n)
		case len(p.value) == 0 && i < 2: // the host may be
			return fmt.Errorf("the field %s must not be empty", name)
		}
	}
	method, target, host := d.parts[0].value, d.parts[1].value, d.parts[2].value
	if bytes.IndexByte(target, '#') >= 0 {
		return errFragment
	}
	d.text = appendTarget(append(append(d.text[:0], method...), ' '), target)
	end := len(d.text)
	d.text = append(append(append(d.text, " HTTP/1.1\r\nHost: "...), host...), "\r\n\r\n"...)
	if d.parse() {
		return nil
	}
	d.text = append(d.text[:end], " HTTP/1.0\r\n\r\n"...)
	if d.parse() {
		return nil
	}
	return errMalformed
}

// parse parses the text into the head, and reports whether it is a request.
func (d *described) parse() bool {
	r := http1.NewRequestReader(&unbounded)
	event, err := r.Next(d.text, &d.head)
	return err == nil && event.Kind == http1.HeadDone && int(event.N) == len(d.text)
}

// unbounded has no effective bounds: the text is made from a head that is bounded.
var unbounded = http1.Limits{HeadBytes: math.MaxInt32}

// appendTarget appends a target. Bytes that a target cannot have, such as those of UTF-8, are escaped,
// because reverse proxies forward them, and applications read them like the escapes. So is a % that
// begins no escape.
func appendTarget(dst, target []byte) []byte {
	const digits = "0123456789ABCDEF"
	begin := 0
	for i, c := range target {
		if c > ' ' && c < 0x7f &&
			(c != '%' || i+2 < len(target) && http1.IsHex(target[i+1]) && http1.IsHex(target[i+2])) {
			continue
		}
		dst = append(append(dst, target[begin:i]...), '%', digits[c>>4], digits[c&15])
		begin = i + 1
	}
	return append(dst, target[begin:]...)
}
