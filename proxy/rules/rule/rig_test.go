package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"weir/internal/net/http1"
	"weir/internal/test/testkit"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
)

// read returns the rules of a file that must be right.
func read(t testing.TB, text string, o rule.Options) *rule.Set {
	t.Helper()
	s, err := rule.Read([]byte(text), o)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return s
}

// clients returns the clients of a file that must be right.
func clients(t testing.TB, text string) *rule.Clients {
	t.Helper()
	return testkit.Must(rule.ReadClients([]byte(text)))(t)
}

// part returns a part that must be right.
func part(t testing.TB, text string) keys.Part {
	t.Helper()
	return testkit.Must(keys.ParsePart(text))(t)
}

// head returns the head of a request such as "GET /a?b" with fields such as
// "X-Plan: free" separated by |.
func head(t testing.TB, request string) *keys.Request {
	t.Helper()
	line, fields, _ := strings.Cut(request, "|")
	var b strings.Builder
	b.WriteString(strings.TrimSpace(line) + " HTTP/1.1\r\n")
	if !strings.Contains(fields, "Host:") {
		b.WriteString("Host: localhost\r\n")
	}
	for field := range strings.SplitSeq(fields, "|") {
		if field = strings.TrimSpace(field); field != "" {
			b.WriteString(field + "\r\n")
		}
	}
	var h http1.Head
	reader := http1.NewRequestReader(&http1.Limits{})
	ev, err := reader.Next([]byte(b.String()+"\r\n"), &h)
	if err != nil || ev.Kind != http1.HeadDone {
		t.Fatalf("%s: %v, %v", request, ev.Kind, err)
	}
	return (*keys.Request)(&h)
}

// matches returns which rules apply to a request, as "id:key" separated by spaces.
func matches(t testing.TB, s *rule.Set, request, client string) string {
	t.Helper()
	var words []string
	var x rule.Scratch
	for _, match := range s.Match(head(t, request), address(client), &x) {
		words = append(words, fmt.Sprintf("%s:%s", match.Rule.ID, match.Key))
	}
	return strings.Join(words, " ")
}

func address(text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(text)
}

// indent puts a limit behind each "- id: x" line of rules that have none.
func rules(lines ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i, line := range lines {
		if !strings.Contains(line, "limit:") {
			line += ", limit: {algorithm: fixed, limit: 10, window: 1}"
		}
		if !strings.Contains(line, "id:") {
			line = fmt.Sprintf("id: r%d, %s", i, line)
		}
		b.WriteString("  - {" + line + "}\n")
	}
	return b.String()
}
