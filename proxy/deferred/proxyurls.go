package deferred

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ProxyURLs are the URLs of proxies that each have a queue of their own, with this proxy's first. The
// last bytes of an ID identify the proxy that has the entry. With nil ProxyURLs, IDs identify none.
//
// Immutable after ParseProxyURLs.
type ProxyURLs []proxyURL

// A proxyURL is one of the proxies.
type proxyURL struct {
	url  string
	mark [2]byte // the last bytes of its IDs
}

// proxyURLsMax bounds ProxyURLs.
const proxyURLsMax = 64

// ParseProxyURLs parses a comma-separated list of URLs.
func ParseProxyURLs(text string) (s ProxyURLs, err error) {
	marks := make(map[[2]byte]string)
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSuffix(strings.TrimSpace(one), "/")
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || one != u.Scheme+"://"+u.Host {
			return nil, fmt.Errorf("%q is not such a URL", one)
		}
		sum := sha256.Sum256([]byte(one))
		mark := [2]byte(sum[:])
		if other, there := marks[mark]; there {
			return nil, fmt.Errorf("%q cannot be distinguished from %q", one, other)
		}
		marks[mark] = one
		s = append(s, proxyURL{one, mark})
	}
	if len(s) > proxyURLsMax {
		return nil, errors.New("has more than 64")
	}
	return s, nil
}

// Tag marks id as one of this proxy.
func (s ProxyURLs) Tag(id *ID) {
	if len(s) > 0 {
		copy(id[len(id)-len(s[0].mark):], s[0].mark[:])
	}
}

// IsPeer reports whether the host of a request is that of another proxy's URL: then the URL of
// this proxy is not the first in the list.
func (s ProxyURLs) IsPeer(host string) bool {
	return slices.ContainsFunc(s[min(1, len(s)):], func(one proxyURL) bool {
		scheme, own, _ := strings.Cut(one.url, "://")
		port := map[string]string{"http": ":80", "https": ":443"}[scheme]
		return host != "" && strings.EqualFold(strings.TrimSuffix(host, port), strings.TrimSuffix(own, port))
	})
}

// PeerURL returns the URL of the proxy that has the entry. It is empty if that is this proxy,
// or unknown.
func (s ProxyURLs) PeerURL(id ID) string {
	for i, one := range s {
		if [2]byte(id[len(id)-len(one.mark):]) == one.mark && i > 0 {
			return one.url
		}
	}
	return ""
}
