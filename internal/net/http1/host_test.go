package http1

import "testing"

func TestValidHost(t *testing.T) {
	for _, c := range []struct {
		host string
		want bool
	}{
		{"", false}, {"a", true}, {"a.b", true}, {"a.b.", true}, {"a..b", false}, {".", false}, {".a", false},
		{"a..", false}, {"A_b-c.d~e", true}, {"a!$&'()*+,;=b", true}, {"a b", false}, {"a/b", false}, {"a?b", false},
		{"a#b", false}, {"a@b", false}, {"a\\b", false}, {"a\xffb", false}, {"a%2eb", true}, {"a%2", false},
		{"a%2gb", false}, {"a%", false}, {"%41", true},
		{"a:", true}, {"a:0", true}, {"a:65535", true}, {"a:65536", false}, {"a:000080", true}, {"a:x", false},
		{"a:8 ", false}, {"a:-1", false}, {"a:1:2", false}, {":80", false}, {":", false}, {"a:99999999999999999999", false},
		{"1.2.3.4", true}, {"1.2.3.4:5", true}, {"::1", false},
		{"[::1]", true}, {"[::1]:80", true}, {"[::1]80", false}, {"[::1]:x", false}, {"[::1", false}, {"[]", false},
		{"[::]", true}, {"[1:2:3:4:5:6:7:8]", true}, {"[1:2:3:4:5:6:7]", false}, {"[1:2:3:4:5:6:7:8:9]", false},
		{"[1::8]", true}, {"[1:2:3:4:5:6:7::]", true}, {"[::2:3:4:5:6:7:8]", true}, {"[1:2:3:4::5:6:7:8]", false},
		{"[1::2::3]", false}, {"[:1]", false}, {"[1:]", false}, {"[:::]", false}, {"[12345::]", false}, {"[g::]", false},
		{"[::ffff:1.2.3.4]", true}, {"[1:2:3:4:5:6:1.2.3.4]", true}, {"[1:2:3:4:5:6:7:1.2.3.4]", false},
		{"[1:2:3:4:5:1.2.3.4]", false}, {"[::1.2.3]", false}, {"[::1.2.3.256]", false}, {"[::1.2.3.04]", false},
		{"[::1.2.3.4.5]", false}, {"[::1.2.3.]", false}, {"[::1234.1.1.1]", false},
		{"[fe80::1%25eth0]", true}, {"[fe80::1%25]", false}, {"[fe80::1%eth0]", false}, {"[fe80::1%25e%2]", false},
		{"[fe80::1%25e/]", false}, {"[v1.a:b]", true}, {"[V1f.x]", true}, {"[v.a]", false}, {"[v1.]", false},
		{"[v1]", false}, {"[vg.a]", false}, {"[v1.a/]", false}, {"[::1].", false}, {"a[::1]", false},
	} {
		if got := validHost([]byte(c.host)); got != c.want {
			t.Errorf("validHost(%q) = %t", c.host, got)
		}
	}
}
