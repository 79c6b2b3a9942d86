package postgres

import (
	"strings"
	"testing"
	"time"

	"weir/proxy/store/lane"
)

func TestConfig(t *testing.T) {
	const good = "postgres://weir:s3cret@localhost/weir"
	for _, test := range []struct {
		cfg   Config
		wants string // of the error; empty: none
	}{
		{Config{URL: good}, ""},
		{Config{URL: "postgresql://weir@a:1,b:2/weir?sslmode=verify-full&target_session_attrs=any"}, ""},
		{Config{URL: ""}, "URL: does not begin with postgres://; allowed: postgres://user:password@host:port/database"},
		{Config{URL: "host=localhost password=s3cret"}, "URL: "},
		{Config{URL: "mysql://weir:s3cret@localhost/weir"}, "URL: "},
		{Config{URL: "postgres://weir:s3cret@localhost:port/weir"}, "URL: "},
		{Config{URL: "postgres://weir:s3cret%zz@localhost/weir"}, "cannot be parsed"},
		{Config{URL: "postgres://weir:s3cret/@localhost/weir"}, "URL: "},
		{Config{URL: "postgres://weir:12/s3cret@localhost/weir"}, "names no user"},
		{Config{URL: "postgres://weir:12@s3cret@localhost/weir"}, "written as %XX"},
		{Config{URL: "postgres://weir:12@s3cret,34@localhost/weir"}, "written as %XX"},
		{Config{URL: "postgres://weir:12@s3cret/34@localhost/weir"}, "written as %XX"},
		{Config{URL: "postgres://localhost/weir?user=weir"}, ""},
		{Config{URL: good + "?sslmode=prefered"}, "sslmode is invalid"},
		{Config{URL: good + "?target_session_attrs=writable"}, "target_session_attrs"},
		{Config{URL: "postgres://weir@localhost"}, "names no database"},
		{Config{URL: good, Config: lane.Config{Timeout: 3 * time.Second}}, "Timeout: must be 1ms to 2s, is 3s"},
		{Config{URL: good, Connections: 65}, "Connections: must be 1 to 64, is 65"},
		{Config{URL: good, Schema: `weir"; DROP`}, "Schema: must be at most"},
		{Config{URL: good, Schema: "pg_weir"}, "Schema: must be at most"},
		{Config{URL: good, KeyPrefix: "a\x00"}, "KeyPrefix: must not"},
	} {
		err := test.cfg.Validate()
		switch {
		case err == nil && test.wants == "":
		case err == nil || test.wants == "" || !strings.Contains(err.Error(), test.wants):
			t.Errorf("%+v: %v, want %q", test.cfg, err, test.wants)
		case strings.Contains(err.Error(), "s3cret"), strings.Contains(err.Error(), "\n"):
			t.Errorf("the password is told, or it is not one line: %v", err)
		}
	}
}

// Of several hosts the one that takes writes is used, unless the URL says otherwise.
func TestSeveralHosts(t *testing.T) {
	for url, checked := range map[string]bool{
		"postgres://weir@a,b/weir":                          true,
		"postgres://weir@a/weir":                            false,
		"postgres://weir@a,b/weir?target_session_attrs=any": false,
	} {
		cfg := Config{URL: url}
		parsed, err := cfg.parse()
		if err != nil || (parsed.ValidateConnect != nil) != checked {
			t.Errorf("%s: %v, checked %v", url, err, !checked)
		}
	}
}
