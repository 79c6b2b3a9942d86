package testkit

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// A NameServer is a DNS server over UDP (RFC 1035) that answers questions for the A and AAAA
// records of one name.
//
// Safe for concurrent use: mu guards the fields below it.
type NameServer struct {
	net.PacketConn
	name string

	mu    sync.Mutex
	addrs []netip.Addr
	code  byte // of the answer
}

// Response codes of a [NameServer] (RFC 1035 section 4.1.1).
const (
	NoError  = 0
	ServFail = 2
	NXDomain = 3
)

// NewNameServer starts a server that ends with the test. addrs are separated by spaces.
func NewNameServer(t testing.TB, name, addrs string) *NameServer {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &NameServer{PacketConn: c, name: name}
	s.SetAnswers(NoError, addrs)
	var ended sync.WaitGroup
	ended.Go(s.serve)
	t.Cleanup(func() {
		c.Close()
		ended.Wait()
	})
	return s
}

// SetAnswers sets the answers.
func (s *NameServer) SetAnswers(code byte, addrs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.addrs = code, nil
	for one := range strings.FieldsSeq(addrs) {
		s.addrs = append(s.addrs, netip.MustParseAddr(one))
	}
}

// Resolver returns a resolver that uses the server.
func (s *NameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.LocalAddr().String())
	}}
}

func (s *NameServer) serve() {
	for b := make([]byte, 1500); ; {
		n, from, err := s.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = s.WriteTo(s.answer(b[:n]), from)
	}
}

// answer returns the answer to a query with one question.
func (s *NameServer) answer(query []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var labels []string
	at := 12
	for n := int(query[at]); n > 0; n = int(query[at]) {
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	question := query[12 : at+5]
	code := s.code
	if strings.Join(labels, ".") != s.name {
		code = NXDomain
	}
	out := append([]byte(nil), query[:2]...)
	out = append(out, 0x81, 0x80|code, 0, 1, 0, 0, 0, 0, 0, 0)
	out = append(out, question...)
	for _, addr := range s.addrs {
		if code != NoError || (kind == 1) != addr.Is4() || kind != 1 && kind != 28 {
			continue
		}
		out[7]++                                                                // ANCOUNT
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0)         // the question's name, type, IN, TTL 0
		out = append(append(out, byte(len(addr.AsSlice()))), addr.AsSlice()...) // RDLENGTH's low byte, RDATA
	}
	return out
}
