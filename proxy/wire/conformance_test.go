package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/data/protowire"
	"weir/internal/test/testkit"
	"weir/proxy/targets/roster"
)

// conformanceFeatures are those that a proxy passes on: all but certificates of clients.
const conformanceFeatures = `features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  supportsHalfDuplexBidiOverHttp1: true
`

// The conformance tests of Connect pass. Their clients call by Connect, gRPC and gRPC-Web over HTTP/1.1 and
// HTTP/2. Their server is the target: it has one of the versions, and TLS if the clients have it.
func TestConnectConformance(t *testing.T) {
	t.Parallel()
	programs := testkit.BuildOrSkip(t, "interop", "connectrpc.com/conformance/cmd/connectconformance",
		"connectrpc.com/conformance/cmd/referenceserver")
	pair := testkit.SelfSigned(time.Now().Add(time.Hour), "127.0.0.1")
	cert, key := testkit.WritePair(t, pair)
	secure := testkit.Trust(pair, "127.0.0.1")
	secure.Certificates, secure.NextProtos = append(secure.Certificates, pair), []string{"h2", "http/1.1"}
	for i := range uint64(4) {
		version, useTLS := 1+i%2, i/2
		t.Run(fmt.Sprintf("TLS %t, target of HTTP/%d", useTLS == 1, version), func(t *testing.T) {
			t.Parallel()
			addr := testkit.FreeAddr(t)
			server := exec.Command(filepath.Join(programs, "referenceserver"), "-cert", cert, "-key", key, "-port",
				fmt.Sprint(netip.MustParseAddrPort(addr).Port()))
			// A ServerCompatRequest: the version, TLS, and the largest message that the server accepts.
			request := protowire.AppendNumber(protowire.AppendNumber(nil, 2, version), 4, useTLS)
			server.Stdin = bytes.NewReader(delimited(protowire.AppendNumber(request, 6, 200<<10)))
			testkit.StartAt(t, server, addr)

			target, trusted := &roster.Target{Addr: addr, Host: addr, HTTP2: version == 2}, []byte(nil)
			r := startWith(t, func(c *Config) {
				c.Targets, c.HTTP2.PriorKnowledge = []*roster.Target{target}, true
				if useTLS == 1 {
					c.Secure, target.Secure, trusted = secure, secure, testkit.Must(os.ReadFile(cert))(t)
				}
			}, "http://x", "HTTP2", "all", "GATE", "off") // with it, calls that were cancelled keep their places

			// The server under test is a process that answers with a ServerCompatResponse: the address of the proxy,
			// and its certificate.
			response := protowire.AppendText(nil, 1, "127.0.0.1")
			response = protowire.AppendNumber(response, 2, uint64(netip.MustParseAddrPort(r.Addr().String()).Port()))
			file := filepath.Join(t.TempDir(), "response")
			if err := os.WriteFile(file, delimited(protowire.AppendText(response, 3, trusted)), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--mode", "server", "--conf", "/dev/stdin", "--skip", fmt.Sprintf("**/TLS:%t/**", useTLS == 0)}
			if version == 1 { // the server, net/http, reads a request of HTTP/1.1 to its end before it answers
				args = append(args, "--skip", "**/full-duplex/**")
			}
			runner := exec.Command(filepath.Join(programs, "connectconformance"),
				append(args, "--", "tail", "-c", "+1", "-f", file)...)
			runner.Stdin = strings.NewReader(conformanceFeatures)
			out, _ := testkit.RequireExit(t, runner, 0)
			checkBaseLine(r)
			if n := r.samples()[`ratelimiter_requests_total{decision="forwarded"}`]; n < 1000 {
				t.Errorf("%v requests were forwarded, want 1000 and more: %s", n, out)
			}
		})
	}
}

// delimited returns a message with its length before it, as the conformance tests exchange them.
func delimited(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}
