package xds

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/data/protowire"
	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
)

// A request is a DiscoveryRequest: the subscription, and the acknowledgement or refusal of the last response.
type request struct {
	node     string
	metadata rls.Struct
	version  string // in force, on this stream; empty: none
	nonce    string // of the last response; empty: there was none
	fault    string // of the last response; empty: it is in force
}

// invalidArgument is the code of google.rpc.Status for a response that is refused.
const invalidArgument = 3

// newRequest returns the first request of a stream. It has no version: the server sends all limits again.
func newRequest(cfg *Config) request {
	r := request{node: cfg.Node, metadata: make(rls.Struct)}
	for name, value := range cfg.Metadata {
		r.metadata[name] = value
	}
	return r
}

func (r *request) append(dst []byte) []byte {
	dst = protowire.AppendText(dst, 1, r.version)
	dst = protowire.AppendMessage(dst, 2, r, func(dst []byte, r *request) []byte {
		dst = protowire.AppendText(dst, 1, r.node)
		if len(r.metadata) > 0 {
			dst = protowire.AppendMessage(dst, 3, r.metadata, rls.AppendStructProto)
		}
		return protowire.AppendText(dst, 6, "weir")
	})
	dst = protowire.AppendText(dst, 4, resourceType)
	dst = protowire.AppendText(dst, 5, r.nonce)
	if r.fault != "" {
		dst = protowire.AppendMessage(dst, 6, r.fault, func(dst []byte, fault string) []byte {
			return protowire.AppendText(protowire.AppendNumber(dst, 1, invalidArgument), 2, fault)
		})
	}
	return dst
}

// A response is a DiscoveryResponse.
type response struct {
	version, nonce string
	files          []descriptor.File
	unread         error // why it could not be read
}

// read reads a response. Files are sorted by name, since servers send resources in any order. With an error, version
// and nonce are set if they could be read.
func (r *response) read(b []byte) error {
	*r = response{}
	var fault error
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			r.version = string(m.Text("version_info"))
		case 2<<3 | protowire.Bytes:
			file, err := readAny(m.Bytes)
			if err != nil && fault == nil {
				fault = err
			}
			r.files = append(r.files, file)
		case 5<<3 | protowire.Bytes:
			r.nonce = string(m.Text("nonce"))
		}
	}
	if m.Err() != nil {
		return m.Err()
	}
	slices.SortStableFunc(r.files, func(a, b descriptor.File) int { return strings.Compare(a.Name, b.Name) })
	return fault
}

// same reports whether two responses have the same version and content.
func (r *response) same(other *response) bool {
	return r.version == other.version && fmt.Sprint(r.unread) == fmt.Sprint(other.unread) &&
		slices.EqualFunc(r.files, other.files, descriptor.File.Equal)
}

// readAny reads a resource in a google.protobuf.Any.
func readAny(b []byte) (descriptor.File, error) {
	var kind string
	var value []byte
	m := protowire.Read(b)
	for m.Next() {
		switch m.Tag {
		case 1<<3 | protowire.Bytes:
			kind = string(m.Text("type_url"))
		case 2<<3 | protowire.Bytes:
			value = m.Bytes
		}
	}
	if err := m.Err(); err != nil {
		return descriptor.File{}, err
	}
	if kind != resourceType {
		return descriptor.File{}, fmt.Errorf("a resource has the type %q, must be %s", kind, resourceType)
	}
	return readResource(value)
}
