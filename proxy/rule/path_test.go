package rule_test

import (
	"bytes"
	"testing"

	"weir/proxy/rule"
)

func TestAppendPath(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if got := string(rule.AppendPath([]byte("keep/"), []byte(path))); got != "keep/"+want {
			t.Errorf("%q becomes %q, want %q", path, got, "keep/"+want)
		}
	}
	f("", "/")
	f("/", "/")
	f("*", "/*")
	f("//", "/")
	f("/a", "/a")
	f("/a/", "/a")
	f("/a//b", "/a/b")
	f("/a/./b/.", "/a/b")
	f("/a/../b", "/b")
	f("/a/b/../..", "/")
	f("/../a", "/a")
	f("/..", "/")
	f("/.../..a/a..", "/.../..a/a..")
	f("/%2e%2E/a", "/a")
	f("/a/%2e", "/a")
	f("/%7Euser/%41", "/~user/A")
	f("/a%2fb", "/a%2Fb")
	f("/a%2f..", "/a%2F..")
	f("/%25", "/%25")
	f("/%2525", "/%2525")
	f("/100%", "/100%25")
	f("/%6%31", "/%2561")
	f("/%3a%40%21;x=1,2", "/:@!;x=1,2")
	f("/a b\x00\xff|\\", "/a%20b%00%FF%7C%5C")
	f("/%c3%a9\xc3\xa9", "/%C3%A9%C3%A9")
}

// FuzzPath: of every path there is one normal form, which is its own.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "//%2e/", "%6%31", "/..;/x", "*", "/%2525%252e"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		normal := rule.AppendPath(nil, path)
		if len(normal) == 0 || normal[0] != '/' || len(normal) > 1 && normal[len(normal)-1] == '/' {
			t.Fatalf("%q becomes %q", path, normal)
		}
		for _, segment := range bytes.Split(normal[1:], []byte("/")) {
			if len(normal) > 1 && (len(segment) == 0 || string(segment) == "." || string(segment) == "..") {
				t.Fatalf("%q becomes %q, which has a segment %q", path, normal, segment)
			}
		}
		if again := rule.AppendPath(nil, normal); !bytes.Equal(again, normal) {
			t.Fatalf("%q becomes %q, and that becomes %q", path, normal, again)
		}
		if odd := rule.AppendPath(nil, append([]byte("/x/%2E%2E//./"), path...)); !bytes.HasPrefix(path, []byte("..")) && !bytes.Equal(odd, normal) {
			t.Fatalf("%q becomes %q, and %q behind a detour", path, normal, odd)
		}
	})
}
