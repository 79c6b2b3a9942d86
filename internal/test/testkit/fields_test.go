package testkit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFields(t *testing.T) {
	type inner struct {
		B int       `json:"b,omitempty"`
		C time.Time `json:"c"`
	}
	type outer struct {
		inner
		List  []inner        `json:"list"`
		One   *inner         `json:"one,omitzero"`
		Names map[string]int `json:"names"`
		Plain []string       `json:"plain"`
		other int
	}
	want := []string{"b", "c", "list[].b", "list[].c", "one.b", "one.c", "names", "plain"}
	if got := Fields(outer{other: 1}); !slices.Equal(got, want) {
		t.Errorf("the fields are %q, want %q", got, want)
	}
}

func TestRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const text = "# Page\n<!-- fields -->\n| field | is |\n| --- | --- |\n| `a`, `b` | one |\n| `c` | two `x` " +
		"|\n<!-- /fields -->\n"
	Must[any](nil, os.WriteFile(file, []byte(text), 0o600))(t)
	rows := TableRows(t, file, "fields")
	if len(rows) != 2 || !slices.Equal(rows[1], []string{"`c`", "two `x`"}) ||
		!slices.Equal(BackquotedWords(rows[0][0]), []string{"a", "b"}) {
		t.Errorf("the rows are %q", rows)
	}
	RequireDocumented(t, file, "fields", []string{"c", "b", "a"})
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		quoted, words []string
		want          string
	}{
		{[]string{"a", "b"}, []string{"b", "a"}, ""},
		{[]string{"a"}, []string{"a", "b"}, "there is no row for b"},
		{[]string{"a", "b"}, []string{"a"}, "there is no b"},
		{[]string{"a", "a"}, []string{"a"}, "there are two rows for a"},
	} {
		got := compare(c.quoted, c.words)
		if c.want == "" && got != nil || c.want != "" && !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q for %q: %q, want %q", c.quoted, c.words, got, c.want)
		}
	}
}
