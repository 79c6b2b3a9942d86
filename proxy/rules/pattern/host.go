package pattern

// AppendHost appends a host without port, in lower case and without a trailing dot, which
// is the value of the key part host.
func AppendHost(dst, host []byte) []byte {
	n := len(host)
	for n > 0 && host[n-1] >= '0' && host[n-1] <= '9' {
		n--
	}
	if n > 0 && host[n-1] == ':' {
		host = host[:n-1]
	}
	if n = len(host); n > 0 && host[n-1] == '.' {
		host = host[:n-1]
	}
	for _, c := range host {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}
