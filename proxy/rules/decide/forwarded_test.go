package decide

import (
	"net/netip"
	"strings"
	"testing"

	"weir/internal/net/http1"
)

var (
	nearest = netip.MustParseAddr("198.51.100.9")
	ours    = netip.MustParsePrefix("198.51.100.0/24")
)

// originOf is that of a request of the nearest proxy with field lines separated by |.
func originOf(lines string) ForwardedInfo {
	var fields []http1.Field
	for line := range strings.SplitSeq(lines, "|") {
		name, value, _ := strings.Cut(line, ": ")
		f := http1.Field{Name: []byte(name), Value: []byte(strings.TrimSpace(value))}
		if http1.EqualFold(f.Name, "X-Forwarded-For") {
			f.ID = http1.FieldXForwardedFor
		}
		fields = append(fields, f)
	}
	return ForwardedInfoOf(fields, nearest, ours.Contains)
}

func TestOriginOf(t *testing.T) {
	for _, test := range []struct{ lines, client, proto string }{
		{"Accept: a", "198.51.100.9", ""},
		{"Forwarded: for=192.0.2.1;proto=https", "192.0.2.1", "https"},
		{"forwarded: FOR=192.0.2.1 ; Proto=HTTPS;host=x", "192.0.2.1", "HTTPS"},
		{`Forwarded: proto="https";for="192.0.2.1:80"`, "192.0.2.1", "https"},
		{`Forwarded: for="[2001:db8::1]:80"`, "2001:db8::1", ""},
		{`Forwarded: for="[2001:db8::1]"`, "2001:db8::1", ""},
		{`Forwarded: for="192.0.2.1:_port"`, "192.0.2.1", ""},
		{`Forwarded: for="[64:ff9b::c000:201]"`, "192.0.2.1", ""},
		{"Forwarded: for=6.6.6.6;proto=https, for=192.0.2.1;proto=http", "192.0.2.1", "http"},
		{"Forwarded: for=6.6.6.6|Forwarded: for=192.0.2.1", "192.0.2.1", ""},
		{"Forwarded: for=192.0.2.1;proto=https, for=198.51.100.2;proto=http", "192.0.2.1", "https"}, // the client's
		{"Forwarded: for=192.0.2.1;proto=https,, for=198.51.100.2 ,", "192.0.2.1", "https"},
		{"Forwarded: for=198.51.100.1;proto=https, for=198.51.100.2", "198.51.100.1", "https"},
		{"Forwarded: for=192.0.2.1, for=unknown;proto=https", "198.51.100.9", "https"}, // which a trusted proxy has added
		{"Forwarded: for=192.0.2.1, for=_hidden, for=198.51.100.2", "198.51.100.2", ""},
		{"Forwarded: for=192.0.2.1, by=198.51.100.3", "198.51.100.9", ""},
		{"Forwarded: proto=https", "198.51.100.9", "https"},
		{"Forwarded: for=192.0.2.1;for=192.0.2.2", "198.51.100.9", ""},
		{"Forwarded: proto=https;proto=http;for=192.0.2.2", "198.51.100.9", ""},
		{`Forwarded: for=192.0.2.1;proto="a b"`, "192.0.2.1", ""},
		{"Forwarded: for=192.0.2.1;proto=0", "192.0.2.1", ""},
		{"Forwarded: for=192.0.2.1;proto=" + strings.Repeat("a", schemeBytesMax), "192.0.2.1",
			strings.Repeat("a", schemeBytesMax)},
		{"Forwarded: for=192.0.2.1;proto=" + strings.Repeat("a", schemeBytesMax+1), "192.0.2.1", ""},
		// Quotes that a client leaves open, and what it writes into them.
		{`Forwarded: for="6.6.6.6, for=192.0.2.1`, "192.0.2.1", ""},
		{`Forwarded: for=6.6.6.6;x=", for="192.0.2.1"`, "192.0.2.1", ""},
		{`Forwarded: x="a, for=6.6.6.6", for=192.0.2.1`, "192.0.2.1", ""},
		{`Forwarded: for=192.0.2.1;x="a, for=6.6.6.6"`, "192.0.2.1", ""},
		{`Forwarded: for=192.0.2.1;x="a\", for=6.6.6.6;y=\"b"`, "192.0.2.1", ""},
		{`Forwarded: for=192.0.2.1;x="\\"`, "192.0.2.1", ""},
		{`Forwarded: for=192.0.2.1, for="`, "198.51.100.9", ""},

		{"X-Real-IP: 192.0.2.1", "192.0.2.1", ""},
		{"X-Real-IP: 6.6.6.6|x-real-ip: [2001:db8::1]:80", "2001:db8::1", ""},
		{"X-Real-IP: unknown", "198.51.100.9", ""},
		{"X-Real-IP:", "198.51.100.9", ""},
		{"X_Real_IP: 192.0.2.1", "198.51.100.9", ""},
		{"X-Real-IP: 6.6.6.6|Forwarded: for=192.0.2.1", "192.0.2.1", ""},
		{"X-Real-IP: 6.6.6.6|X-Forwarded-For: 192.0.2.1", "192.0.2.1", ""},
		{"X-Real-IP: 192.0.2.1|X-Forwarded-For: ", "192.0.2.1", ""},
		{"X-Forwarded-For: 192.0.2.1|Forwarded: for=192.0.2.1;proto=https", "192.0.2.1", "https"},
		{"X-Forwarded-For: 192.0.2.1|Forwarded: for=unknown", "192.0.2.1", ""},
		{"X-Forwarded-For: 192.0.2.1|Forwarded: for=192.0.2.2;proto=https", "192.0.2.1 differ", "https"},
		{"X-Forwarded-For: unknown|Forwarded: for=192.0.2.2", "198.51.100.9 differ", ""},
	} {
		o := originOf(test.lines)
		got := o.Client.String()
		if o.Differ {
			got += " differ"
		}
		if got != test.client || string(o.Proto) != test.proto {
			t.Errorf("%s: client %s by %q, want %s by %q", test.lines, got, o.Proto, test.client, test.proto)
		}
	}
}

// FuzzOriginOf: whatever a client writes, what a trusted proxy adds to it counts.
func FuzzOriginOf(f *testing.F) {
	f.Add(`for="[2001:db8::1]";proto=https, for=x`, true)
	f.Add(`for="6.6.6.6`, false)
	f.Add(`for=6.6.6.6;x="a\`, true)
	f.Add(`;,=""\"`, false)
	f.Fuzz(func(t *testing.T, claimed string, quoted bool) {
		if strings.Contains(claimed, "|") {
			return
		}
		alone := originOf("Forwarded: " + claimed)
		if alone.Client != nearest && !alone.Client.IsValid() {
			t.Errorf("%q: no client", claimed)
		}
		added := "for=192.0.2.1;proto=https"
		if quoted {
			added = `proto="https";for="192.0.2.1:80"`
		}
		for _, lines := range []string{"Forwarded: " + claimed + ", " + added, "Forwarded: " + claimed + "|Forwarded: " +
			added} {
			if o := originOf(lines); o.Client.String() != "192.0.2.1" || string(o.Proto) != "https" {
				t.Errorf("%s: client %s by %q", lines, o.Client, o.Proto)
			}
		}
	})
}
