package remote

import (
	"crypto/tls"
	"net"
	"net/url"
	"strconv"

	"weir/internal/net/http1"
	"weir/proxy/store/asks"
)

// A master is a decision port.
//
// Immutable.
type master struct {
	url, addr string
	secure    *tls.Config // nil: no TLS
	head      []byte      // of each question, up to the value of Content-Length
}

// newMaster returns a master. base must be valid.
func newMaster(base, token string, secure *tls.Config) *master {
	u, _ := url.Parse(base)
	m := &master{url: base, addr: u.Host}
	port := "80"
	if u.Scheme == "https" {
		port, m.secure = "443", secure
	}
	if u.Port() == "" {
		m.addr = net.JoinHostPort(u.Hostname(), port)
	}
	m.head = append(m.head, "POST /v1/decide HTTP/1.1\r\n"...)
	m.head = http1.AppendField(m.head, "Host", u.Host)
	m.head = http1.AppendField(m.head, "User-Agent", agent)
	m.head = http1.AppendField(m.head, "Content-Type", asks.ContentType)
	if token != "" {
		m.head = http1.AppendField(m.head, "Authorization", "Bearer "+token)
	}
	m.head = append(m.head, "Content-Length: "...)
	return m
}

// appendRequest appends the request that asks a question.
func (m *master) appendRequest(dst, question []byte) []byte {
	dst = strconv.AppendInt(append(dst, m.head...), int64(len(question)), 10)
	return append(append(dst, "\r\n\r\n"...), question...)
}
