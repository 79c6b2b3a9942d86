package rule

import (
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/data/strict"
	"weir/internal/net/share"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/pattern"
)

// DescriptorKeys maps the keys of a descriptor file to parts of a request.
type DescriptorKeys map[string]keys.Part

// ParseDescriptorKeys reads the setting DESCRIPTOR_KEYS, such as
// message_type=header:X-Type,auth_type=query:auth. The error lists all faults.
func ParseDescriptorKeys(text string) (DescriptorKeys, error) {
	var j strict.Reader
	parts := make(DescriptorKeys)
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		key, word, _ := strings.Cut(item, "=")
		part, err := keys.ParsePart(word)
		switch {
		case item == "":
		case key == "" || word == "":
			j.Fault("", "must be pairs such as message_type=header:X-Type, is %q", item)
		case err != nil:
			j.Fault(key, "%s", err)
		case part.Source == keys.Global:
			j.Fault(key, "must not be global, which has no value")
		case parts[key] != keys.Part{}:
			j.Fault(key, "given twice")
		default:
			parts[key] = part
		}
	}
	return parts, j.Err()
}

// envoyOnly are the keys whose values come from Envoy's configuration. If they were read
// from header fields of these names, clients could choose their limits.
var envoyOnly = map[string]string{
	"generic_key":           "a constant of Envoy's route",
	"header_match":          "a constant of Envoy's route",
	"query_match":           "a constant of Envoy's route",
	"source_cluster":        "the name of Envoy's own cluster",
	"destination_cluster":   "the name of the cluster that Envoy routes to",
	"masked_remote_address": "as much of the address as Envoy's route says",
}

// part returns the part of a request that a descriptor's key stands for. It is that of
// the setting, or otherwise
//
//	remote_address  ip
//	path            path
//	method          method
//	header_<name>   header:<name>
//	<name>          header:<name>
//
// with each underscore in the field's name replaced by a hyphen, since many servers drop
// fields with underscores. The keys of envoyOnly are errors.
func (d DescriptorKeys) part(key string) (keys.Part, error) {
	if p, ok := d[key]; ok {
		return p, nil
	}
	switch key {
	case "remote_address":
		return keys.ParsePart("ip")
	case "path", "method":
		return keys.ParsePart(key)
	case "masked_remote_address":
		return keys.Part{}, fmt.Errorf("must be in DESCRIPTOR_KEYS, as in %s=ip/24: it is %s", key, envoyOnly[key])
	}
	if what, ok := envoyOnly[key]; ok {
		return keys.Part{},
			fmt.Errorf("must be in DESCRIPTOR_KEYS, as in %s=header:X-Class, because it is %s and not a part of a request; "+
				"or write a rule that matches what the route does", key, what)
	}
	name := strings.ReplaceAll(strings.TrimPrefix(key, "header_"), "_", "-")
	switch {
	case keys.IsForwardingField(name):
		return keys.Part{}, fmt.Errorf(
			"must be remote_address, which respects TRUSTED_PROXIES: any client can write an address into the field %s", name)
	case !keys.IsToken(name):
		return keys.Part{}, fmt.Errorf("must be a name that a field can have, or be in DESCRIPTOR_KEYS, is %q", key)
	}
	return keys.Part{Source: keys.Header, Name: name}, nil
}

// valueOf returns a value of a descriptor's key in the normal form of its part. A value
// that no request can have is an error: envoyproxy/ratelimit compares text, so such an
// entry would never apply.
func valueOf(p keys.Part, key, text string) (string, error) {
	switch {
	case strings.Contains(text, "*"):
		return "", fmt.Errorf(
			"must be one value, is %q: wildcards are not supported; write each value, or a rule with match", shownOf(p, text))
	case p.Source == keys.Path:
		if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, "?#") {
			return "", fmt.Errorf("must be a path that begins with / and has no ? and #, is %q", text)
		}
		return string(pattern.AppendNormalPath(nil, []byte(text))), nil
	case p.Source == keys.Host:
		return string(pattern.AppendHost(nil, []byte(text))), nil
	case p.Source == keys.Method && (!keys.IsToken(text) || text != strings.ToUpper(text)):
		return "", fmt.Errorf("must be a method in upper case, such as GET, is %q", text)
	case p.Source == keys.IP:
		return networkOf(p, key, text)
	}
	normal, err := p.Normal([]byte(text))
	return string(normal), err
}

// shownOf returns a value as it may be shown to people. Ids of rules are made of values,
// and clients and scrapers see them.
func shownOf(p keys.Part, text string) string {
	if !p.Secret() {
		return text
	}
	return keys.Redacted([]byte(text))
}

// networkOf returns the normal form of an address or network that is a value of p.
func networkOf(p keys.Part, key, text string) (string, error) {
	address, err := netip.ParseAddr(text)
	prefix, errPrefix := netip.ParsePrefix(text)
	switch {
	case err == nil && address.Zone() == "":
		address = share.Canonical(address)
		prefix = netip.PrefixFrom(address, address.BitLen())
	case errPrefix != nil:
		return "", fmt.Errorf("must be an IP address, is %q", text)
	}
	value := string(p.AppendAddress(nil, prefix.Addr()))
	switch {
	case value == prefix.String(), prefix.IsSingleIP() && value == prefix.Addr().String():
		return value, nil
	case prefix != prefix.Masked():
		return "", fmt.Errorf("must be the address of a network, such as %s, is %q", prefix.Masked(), text)
	}
	instead := ""
	sized := fmt.Sprintf("ip/%d", prefix.Bits())
	if other, err := keys.ParsePart(sized); err == nil && string(other.AppendAddress(nil, prefix.Addr())) != value {
		instead = fmt.Sprintf("; or set DESCRIPTOR_KEYS=%s=%s to tell clients apart by that", key, sized)
	}
	return "", fmt.Errorf("must be what the part %s tells clients apart by, such as %s, is %q%s", p, value, text, instead)
}
