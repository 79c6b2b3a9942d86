package rule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/proxy/rules/rule"
)

// An entry is a descriptor of the twin below.
type entry struct {
	key, value string
	limited    bool
	below      []entry
}

// write appends a list of entries as YAML.
func write(b *strings.Builder, list []entry, indent string) {
	for _, e := range list {
		fmt.Fprintf(b, "%s- key: %s\n", indent, e.key)
		if e.value != "" {
			fmt.Fprintf(b, "%s  value: %s\n", indent, e.value)
		}
		if e.limited {
			fmt.Fprintf(b, "%s  rate_limit: {unit: day, requests_per_unit: 1}\n", indent)
		}
		if len(e.below) > 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			write(b, e.below, indent+"    ")
		}
	}
}

// walk looks a request up as envoyproxy/ratelimit does: for each key of a list that
// the request has its value, else the bare key; then what is nested there.
func walk(list []entry, request map[string]string, id string) (ids []string) {
	for _, key := range []string{"a", "b"} {
		find := func(value string) int {
			return slices.IndexFunc(list, func(e entry) bool { return e.key == key && e.value == value })
		}
		value, present := request[key]
		if !present {
			continue
		}
		i := find(value)
		if i < 0 {
			i, value = find(""), ""
		}
		if i < 0 {
			continue
		}
		at := id + "/" + key
		if value != "" {
			at += "=" + value
		}
		if list[i].limited {
			ids = append(ids, at)
		}
		ids = append(ids, walk(list[i].below, request, at)...)
	}
	return ids
}

// The rules of a descriptor file apply as its tree is walked.
func TestDescriptorsAsInTheirTree(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	var grow func(depth int) []entry
	grow = func(depth int) (list []entry) {
		for _, key := range []string{"a", "b"} {
			for _, value := range []string{"", "x", "y"} {
				if chance.IntN(2) == 0 {
					continue
				}
				e := entry{key: key, value: value, limited: chance.IntN(3) > 0}
				if depth > 1 && chance.IntN(2) == 0 {
					e.below = grow(depth - 1)
				}
				list = append(list, e)
			}
		}
		chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	var x rule.Scratch
	for range 300 {
		tree := grow(2)
		var text strings.Builder
		text.WriteString("domain: d\ndescriptors:\n  []\n")
		if len(tree) > 0 {
			text.Reset()
			text.WriteString("domain: d\ndescriptors:\n")
			write(&text, tree, "  ")
		}
		set := read(t, text.String(), rule.Options{})
		for _, a := range []string{"-", "", "x", "y", "z"} {
			for _, b := range []string{"-", "", "x", "y", "z"} {
				line, request := "GET /", make(map[string]string)
				for _, field := range [][2]string{{"a", a}, {"b", b}} {
					if field[1] != "-" { // which is a missing one
						line += " | " + field[0] + ": " + field[1]
						request[field[0]] = field[1]
					}
				}
				var got []string
				for _, match := range set.Match(head(t, line), address(""), &x) {
					got = append(got, match.Rule.ID)
				}
				want := walk(tree, request, "d")
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%s meets %v, in the tree %v:\n%s", line, got, want, text.String())
				}
			}
		}
	}
}
