package deferred_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
)

// Each proxy finds the others by the IDs that they have made, however the others are listed.
func TestProxyURLs(t *testing.T) {
	t.Parallel()
	urls := []string{"http://10.0.0.1:8082", "https://b.example", "http://[::1]:8082"}
	list := func(first int) deferred.ProxyURLs {
		return testkit.Must(deferred.ParseProxyURLs(strings.Join(append(urls[first:len(urls):len(urls)],
			urls[:first]...),
			", ")))(t)
	}
	for host, want := range map[string]bool{"": false, "10.0.0.1:8082": false, "10.0.0.1": false, ".example": false,
		"b.example:81": false,
		"b.example":    true, "B.example": true, "b.example:443": true, "b.example:80": false} {
		if got := list(0).IsPeer(host); got != want {
			t.Errorf("%q is another's: %v", host, got)
		}
	}
	for made := range urls {
		var id deferred.ID
		_, _ = rand.Read(id[:]) // never fails
		list(made).Tag(&id)
		for asked := range urls {
			want := urls[made]
			if asked == made {
				want = ""
			}
			if got := list(asked).PeerURL(id); got != want {
				t.Errorf("%s sends who asks for an entry of %s to %q", urls[asked], urls[made], got)
			}
		}
	}
	var id, before deferred.ID
	if deferred.ProxyURLs(nil).Tag(&id); id != before || deferred.ProxyURLs(nil).PeerURL(id) != "" {
		t.Errorf("without a list: got the id %x, elsewhere %q; want %x and nothing", id, deferred.ProxyURLs(nil).PeerURL(id), before)
	}
}

func TestParseProxyURLs(t *testing.T) {
	t.Parallel()
	many := "http://a"
	for n := range 64 {
		many += fmt.Sprintf(",http://a%d", n)
	}
	for text, fault := range map[string]string{
		"http://a": "", "http://a/, https://b:1/": "", "": "is not such a URL", "a:80": "is not such a URL",
		"ftp://a": "is not such a URL", "http://": "is not such a URL",
		"http://u@a": "is not such a URL", "http://a/x": "is not such a URL", "http://a?x": "is not such a URL",
		"http://a#x": "is not such a URL", "http://a,": "is not such a URL",
		"http://a,http://a/": "cannot be distinguished from", many: "has more than 64",
	} {
		if _, err := deferred.ParseProxyURLs(text); (err == nil) != (fault == "") || err != nil &&
			!strings.Contains(err.Error(), fault) {
			t.Errorf("%.40q: %v, want %q", text, err, fault)
		}
	}
}
