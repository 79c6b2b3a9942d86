package http1

import "testing"

func TestIsConnectionAuth(t *testing.T) {
	for _, test := range []struct {
		value string
		want  bool
	}{
		{"NTLM", true},
		{"negotiate YII=", true},
		{"Basic realm=x, Negotiate", true},
		{`Basic realm="a, \"b", NTLM`, true},
		{"Basic realm=x,\tNTLM ", true},
		{"", false},
		{",", false},
		{"Basic realm=negotiate", false},
		{`Basic realm="by password, Negotiate or card"`, false},
		{`Basic realm="a\", NTLM"`, false},
		{`Basic realm="cut off, NTLM`, false},
	} {
		f := Field{ID: FieldWWWAuthenticate, Value: []byte(test.value)}
		if got := IsConnectionAuth(&f); got != test.want {
			t.Errorf("%q: %v, want %v", test.value, got, test.want)
		}
	}
}
