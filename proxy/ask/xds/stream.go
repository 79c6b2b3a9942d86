package xds

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A stream is a call of gRPC in which both sides send messages.
//
// Owned by the goroutine of Run.
type stream struct {
	requests *io.PipeWriter
	answer   *http.Response
	bytesMax int // of a message
}

// method is the path of the call.
const method = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"

// prefixBytes precede each message: whether it is compressed, and its length.
const prefixBytes = 5

// open begins the call with a first message, and waits for the head of the answer. A server may send that only with its
// first message. The call ends when ctx does.
func open(ctx context.Context, cfg *Config, client *http.Client, first []byte) (*stream, error) {
	reader, requests := io.Pipe()
	body := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(frame(first)), reader), reader}
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+cfg.Server+method, body)
	if err != nil {
		return nil, err
	}
	for name, value := range cfg.Fields {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("User-Agent", "weir")
	answer, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	s := &stream{requests: requests, answer: answer, bytesMax: cfg.MessageBytesMax}
	kind := answer.Header.Get("Content-Type")
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "application/grpc") {
		s.close()
		return nil, fmt.Errorf("the server does not speak gRPC: it answers %s with content of type %q", answer.Status, kind)
	}
	return s, nil
}

// frame returns a message with its prefix.
func frame(message []byte) []byte {
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return append(framed, message...)
}

func (s *stream) close() {
	_ = s.requests.Close()
	_ = s.answer.Body.Close()
}

func (s *stream) send(message []byte) error {
	_, err := s.requests.Write(frame(message))
	return err
}

// receive returns the next message. When the call has ended it returns why, never nil.
func (s *stream) receive() ([]byte, error) {
	var prefix [prefixBytes]byte
	if _, err := io.ReadFull(s.answer.Body, prefix[:]); err != nil {
		return nil, s.end(err)
	}
	n := binary.BigEndian.Uint32(prefix[1:])
	switch {
	case prefix[0] != 0:
		return nil, errors.New("the server sends compressed messages, which were not asked for")
	case int64(n) > int64(s.bytesMax):
		return nil, fmt.Errorf("a message has %d bytes, at most %d are accepted", n, s.bytesMax)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(s.answer.Body, message); err != nil {
		return nil, s.end(err)
	}
	return message, nil
}

// end returns why the call has ended: the status of the server, if it has sent one.
func (s *stream) end(err error) error {
	for _, fields := range []http.Header{s.answer.Trailer, s.answer.Header} { // in Header if there was no message
		if status := fields.Get("Grpc-Status"); status != "" {
			return fmt.Errorf("the server has ended the stream with the status %s of gRPC %q", status,
				fields.Get("Grpc-Message"))
		}
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server has ended the stream")
	}
	return err
}
