package deferred_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"weir/proxy/deferred"
)

// entries have all fields, few, and none.
func entries() []*deferred.Entry {
	at := time.Date(2026, 11, 23, 6, 0, 0, 123000, time.UTC)
	return []*deferred.Entry{
		{},
		{ID: deferred.ID{1}, Rule: "orders", Head: []byte("POST / HTTP/1.1\r\n\r\n"), State: deferred.Waiting,
			Accepted: at, Expires: at.Add(time.Hour), Remote: netip.MustParseAddrPort("10.0.0.1:80")},
		{
			ID: deferred.ID{2}, Rule: "orders", LineKey: "shop\x00\xff", Order: deferred.SeveralAtATime, Parallel: 8,
			Accepted: at, Expires: at.Add(time.Hour), Remote: netip.MustParseAddrPort("[fe80::1%eth0]:8080"), TLS: true,
			Scope: deferred.SHA256{3}, Fingerprint: deferred.SHA256{4}, Head: []byte("head"),
			Body: bytes.Repeat([]byte{0}, 5000), Callback: "https://x/",
			State: deferred.Failed, Due: at.Add(time.Second), Attempts: 8,
			Last: deferred.LastAttempt{At: at, Status: 503, Error: "no answer"},
			Result: &deferred.Result{Status: 503, Head: []byte("HTTP/1.1 503 X\r\n\r\n"), Body: []byte("busy"),
				Bytes: 1 << 40, Truncated: true},
		},
		{ID: deferred.ID{5}, State: deferred.Done, Result: &deferred.Result{}},
	}
}

// What is written is read again, and bytes that have changed anywhere are no entry.
func TestBinary(t *testing.T) {
	t.Parallel()
	for _, e := range entries() {
		data := deferred.AppendEntry([]byte("before"), e)[len("before"):]
		got, err := deferred.ParseEntry(data)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v is read as %+v, %v", e, got, err)
		}
		for i := range data {
			data[i] ^= 0x20
			if _, err := deferred.ParseEntry(data); err == nil {
				t.Fatalf("byte %d of %d may be another", i, len(data))
			}
			data[i] ^= 0x20
		}
		for n := range data {
			if _, err := deferred.ParseEntry(data[:n]); err == nil {
				t.Fatalf("%d bytes of %d are an entry", n, len(data))
			}
		}
	}
}

// An entry of a version to come is told from a damaged one.
func TestBinaryVersion(t *testing.T) {
	t.Parallel()
	if _, err := deferred.ParseEntry(sealed([]byte{9, 1, 2, 3})); !errors.Is(err, deferred.ErrVersion) {
		t.Errorf("%v", err)
	}
}

// sealed appends the checksum.
func sealed(data []byte) []byte {
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// Whatever is read is written again as it was: an entry has one form.
func FuzzParseEntry(f *testing.F) {
	for _, e := range entries() {
		data := deferred.AppendEntry(nil, e)
		f.Add(data[:len(data)-4])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = deferred.ParseEntry(data)
		data = sealed(data)
		e, err := deferred.ParseEntry(data)
		if err != nil {
			return
		}
		if again := deferred.AppendEntry(nil, e); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
	})
}
