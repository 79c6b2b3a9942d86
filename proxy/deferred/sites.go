package deferred

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Sites are the URLs of proxies of which each has a queue of its own, this proxy's first. The
// last bytes of an ID tell which of them has the entry. Nil: IDs do not tell.
//
// Immutable after ParseSites.
type Sites []site

// A site is one of the proxies.
type site struct {
	url  string
	mark [2]byte // the last bytes of its IDs
}

// sitesMax bounds Sites.
const sitesMax = 64

// ParseSites reads a list of URLs.
func ParseSites(text string) (s Sites, err error) {
	marks := make(map[[2]byte]string)
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSuffix(strings.TrimSpace(one), "/")
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || one != u.Scheme+"://"+u.Host {
			return nil, fmt.Errorf("%q is no such URL", one)
		}
		sum := sha256.Sum256([]byte(one))
		mark := [2]byte(sum[:])
		if other, there := marks[mark]; there {
			return nil, fmt.Errorf("%q cannot be told from %q", one, other)
		}
		marks[mark] = one
		s = append(s, site{one, mark})
	}
	if len(s) > sitesMax {
		return nil, errors.New("has more than 64")
	}
	return s, nil
}

// Mark makes id one of this proxy.
func (s Sites) Mark(id *ID) {
	if len(s) > 0 {
		copy(id[len(id)-len(s[0].mark):], s[0].mark[:])
	}
}

// Others reports whether host, as in a request, is that of the URL of another proxy: whoever asks
// this proxy under it shows that its own URL is not the first.
func (s Sites) Others(host string) bool {
	return slices.ContainsFunc(s[min(1, len(s)):], func(one site) bool {
		scheme, own, _ := strings.Cut(one.url, "://")
		port := map[string]string{"http": ":80", "https": ":443"}[scheme]
		return host != "" && strings.EqualFold(strings.TrimSuffix(host, port), strings.TrimSuffix(own, port))
	})
}

// Elsewhere returns the URL of the proxy that has the entry; empty: it is this one, or not known.
func (s Sites) Elsewhere(id ID) string {
	for i, one := range s {
		if [2]byte(id[len(id)-len(one.mark):]) == one.mark && i > 0 {
			return one.url
		}
	}
	return ""
}
