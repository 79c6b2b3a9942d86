package testkit

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Fields returns the paths of all JSON fields of a struct, such as backoff.first, with those of
// structs in lists as in steps[].rps. A struct without fields of JSON counts as one value.
func Fields(v any) (paths []string) { return fieldsOf(reflect.TypeOf(v), "") }

func fieldsOf(t reflect.Type, path string) (paths []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				paths = append(paths, fieldsOf(f.Type, path)...)
			case name != "":
				paths = append(paths, fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
			}
		}
	}
	if paths == nil {
		return []string{strings.TrimSuffix(path, "[]")}
	}
	return paths
}

// RequireDocumented checks that the first cells of a table, see TableRows, quote exactly these words.
func RequireDocumented(t *testing.T, file, mark string, words []string) {
	t.Helper()
	var quoted []string
	for _, row := range TableRows(t, file, mark) {
		quoted = append(quoted, BackquotedWords(row[0])...)
	}
	for _, fault := range compare(quoted, words) {
		t.Errorf("%s, table %s: %s", file, mark, fault)
	}
}

// compare says which words are not quoted once, and what else is quoted.
func compare(quoted, words []string) (faults []string) {
	for _, word := range words {
		if !slices.Contains(quoted, word) {
			faults = append(faults, "there is no row for "+word)
		}
	}
	for i, word := range quoted {
		switch {
		case !slices.Contains(words, word):
			faults = append(faults, "there is no "+word)
		case slices.Contains(quoted[:i], word):
			faults = append(faults, "there are two rows for "+word)
		}
	}
	return faults
}
