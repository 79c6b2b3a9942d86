package pattern

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A path as interpreted by RFC 3986 is normalized.
func TestPathAsWritten(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if got := string(appendInterpretation([]byte("keep/"), []byte(path), 0)); got != "keep/"+want {
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

// AppendInterpretations returns every way in which targets may read a path, the shortest form last.
func TestInterpretations(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"/a/b", "/a/b"},
		{"/a/b/", "/a/b"},
		{"/a%2Fb", "/a%2Fb /a/b"},
		{"/a%2fb", "/a%2Fb /a/b"},
		{"/a%252Fb", "/a%252Fb"},
		{"/a%2F..%2Fb", "/a%2F..%2Fb /b"},
		{"/a%2F%2e%2e%2Fb", "/a%2F..%2Fb /b"},
		{"/%2F%2Fa%2F", "/%2F%2Fa%2F /a"},
		{"/%2F..", "/%2F.. /"},
		{"/a%2", "/a%252"},
		{"/a;x=1", "/a;x=1 /a"},
		{"/a;x=1/b;y", "/a;x=1/b;y /a/b"},
		{"/a;/b", "/a;/b /a/b"},
		{"/;x", "/;x /"},
		{"/a/..;/b", "/a/..;/b /b"},
		{"/a/.;x/b", "/a/.;x/b /a/b"},
		{"/a%3Bx", "/a;x /a%3Bx"},
		{"/a%3bx;y", "/a;x;y /a%3Bx"},
		{"/a;x%2Fb", "/a;x%2Fb /a;x/b /a /a"},
		{"/a%2Fb;x/c", "/a%2Fb;x/c /a/b;x/c /a%2Fb/c /a/b/c"},
		{"/a\\b", "/a%5Cb"},
		{"/%5Ca;x", "/%5Ca;x /%5Ca"},
	} {
		var all [InterpretationsMax][]byte
		_, n := AppendInterpretations(nil, []byte(test.path), &all)
		if got := string(bytes.Join(all[:n], []byte(" "))); got != test.want {
			t.Errorf("%s reads as %s, want %s", test.path, got, test.want)
		}
		if IsNormal([]byte(test.path)) && (n != 1 || string(all[0]) != test.path) {
			t.Errorf("%s is reported as normal", test.path)
		}
		if got := AppendPathPart(nil, []byte(test.path)); !bytes.Equal(got, all[n-1]) {
			t.Errorf("%s has the key %s, and reads as %s", test.path, got, all[:n])
		}
	}
}

// However a target reads paths, all spellings of one path have the same value of the
// key part path, or none.
func TestSpellingsHaveOneValue(t *testing.T) {
	chance := rand.New(rand.NewPCG(11, 12))
	pieces := []string{"/", "/", "/", "%2F", "a", "%61", "b", "..", ".", ";", ";x", "%3B", "a/b"}
	type view struct {
		how  interpretation
		path string
	}
	values := make(map[view]string)
	spelled := make(map[view]string)
	differ, lack := 0, 0
	for range 50_000 {
		path := "/"
		for range 1 + chance.IntN(8) {
			path += pieces[chance.IntN(len(pieces))]
		}
		var all [InterpretationsMax][]byte
		_, n := AppendInterpretations(nil, []byte(path), &all)
		_, value, ok := UnambiguousPathPart(nil, all[:n])
		if !ok {
			lack++
			continue
		}
		for r := range interpretation(InterpretationsMax) {
			v := view{r, string(appendInterpretation(nil, []byte(path), r))}
			if before, known := values[v]; known && before != string(value) {
				t.Fatalf("%s and %s are both %s in reading %d, and have the values %s and %s", spelled[v], path, v.path, r,
					before, value)
			} else if known && spelled[v] != path {
				differ++
			}
			values[v], spelled[v] = string(value), path
		}
	}
	if differ < 1_000 || lack < 1_000 {
		t.Errorf("only %d spellings met again, and %d lack the value", differ, lack)
	}
}

// FuzzPath checks that normalizing a normal form does not change it.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "//%2e/", "%6%31", "/..;/x", "/a%2F..;x%3B/b%5c", "*", "/%2525%252e"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, path []byte) {
		for r := range interpretation(InterpretationsMax) {
			if fault := faultOfReading(path, r); fault != "" {
				t.Fatalf("reading %d: %s", r, fault)
			}
		}
		var all [InterpretationsMax][]byte
		if _, n := AppendInterpretations(nil, path, &all); IsNormal(path) && (n != 1 || !bytes.Equal(all[0], path)) ||
			!bytes.Equal(all[n-1], AppendPathPart(nil, path)) {
			t.Fatalf("%q reads as %q", path, all[:n])
		}
	})
}

func faultOfReading(path []byte, r interpretation) string {
	normal := appendInterpretation(nil, path, r)
	if len(normal) == 0 || normal[0] != '/' || len(normal) > 1 && normal[len(normal)-1] == '/' {
		return fmt.Sprintf("%q becomes %q", path, normal)
	}
	for _, segment := range bytes.Split(normal[1:], []byte("/")) {
		if len(normal) > 1 && (len(segment) == 0 || string(segment) == "." || string(segment) == "..") {
			return fmt.Sprintf("%q becomes %q, which has a segment %q", path, normal, segment)
		}
	}
	if again := appendInterpretation(nil, normal, r); !bytes.Equal(again, normal) {
		return fmt.Sprintf("%q becomes %q, and that becomes %q", path, normal, again)
	}
	if odd := appendInterpretation(nil, append([]byte("/x/%2E%2E//./"), path...), r); !bytes.HasPrefix(path,
		[]byte("..")) &&
		!bytes.Equal(odd, normal) {
		return fmt.Sprintf("%q becomes %q, and %q behind a detour", path, normal, odd)
	}
	return ""
}
