package descriptor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/rules/rls"
)

const shop = `
domain: shop
descriptors:
  - key: plan
    value: free
    rate_limit: {unit: second, requests_per_unit: 2, name: free, replaces: [{name: others}]}
    descriptors:
      - key: remote_address
        rate_limit: {unit: Month, requests_per_unit: 1}
      - key: remote_address
        value: 192.0.2.7
        rate_limit: {unlimited: true}
  - key: plan
    value: "g*d"
    shadow_mode: true
    value_to_metric: true
    rate_limit: {unit: hour, requests_per_unit: 3}
  - key: plan
    value: "*"
    share_threshold: true
    descriptors:
      - key: path
        value: /a*b*c
        detailed_metric: true
        rate_limit: {unit: day, requests_per_unit: 4}
  - key: plan
    rate_limit: {unit: minute, requests_per_unit: 9, name: others}
  - key: own
    quota_mode: true
    metadata: {tier: 1, list: [a, true, null], deep: {x: y}}
    rate_limit: {algorithm: token, capacity: 50, fillRate: 5}
  - {key: own, value: 4, rate_limit: {algorithm: sliding, limit: 7, window: 3600}}
  - key: httproute/default/cheap/rule/0/match/0/*
    value: httproute/default/cheap/rule/0/match/0/*
    rate_limit: null # Envoy Gateway writes all fields
    descriptors:
      - {key: rule-0-match-0, value: rule-0-match-0, descriptors: [], shadow_mode: false, quota_mode: false,
         detailed_metric: false, value_to_metric: false, share_threshold: false,
         rate_limit: {unit: HOUR, requests_per_unit: 21, unlimited: false, name: "", replaces: []}}
  - {key: tenant-*, rate_limit: {unit: hour, requests_per_unit: 22}}
  - {key: tenant-a, rate_limit: {unit: hour, requests_per_unit: 23}}
  - {key: tenant-a, value: x, rate_limit: {unit: hour, requests_per_unit: 24}}
  - {key: tenant_b*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 25}}
`

func read(t *testing.T, text string) *Domain {
	t.Helper()
	domains := testkit.Must(Read([]File{{"shop.yaml", []byte(text)}}, false))(t)
	return domains.Domain([]byte("shop"))
}

// entries reads "plan=free path=/a".
func entries(text string) (list []rls.Entry) {
	for one := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(one, "=")
		list = append(list, rls.Entry{Key: []byte(key), Value: []byte(value)})
	}
	return list
}

func TestWalk(t *testing.T) {
	d := read(t, shop)
	for _, test := range []struct{ entries, limit, rule, key, series string }{
		{"plan=free", "2/SECOND free", "rls/shop/plan=free", "4:plan4:free", "plan_free"},
		{"plan=free remote_address=1", "1/MONTH", "rls/shop/plan=free/remote_address", "4:plan4:free14:remote_address1:1",
			"plan_free|remote_address"},
		{"plan=free remote_address=192.0.2.7", "unlimited", "rls/shop/plan=free/remote_address=192.0.2.7",
			"4:plan4:free14:remote_address9:192.0.2.7", "plan_free|remote_address_192.0.2.7"},
		{"plan=free other=1", "", "", "", ""},
		{"plan=free remote_address=1 more=2", "", "", "", ""},
		{"plan=gold", "3/HOUR shadow", "rls/shop/plan=g%2Ad", "4:plan4:gold", "plan_gold"},
		{"plan=gd", "3/HOUR shadow", "rls/shop/plan=g%2Ad", "4:plan2:gd", "plan_gd"},
		{"plan=g", "", "", "", ""}, // the wildcard before the bare key, and it has no limit
		{"plan=", "", "", "", ""},
		{"plan=x path=/a/b/bc", "4/DAY", "rls/shop/plan=%2A/path=%2Fa%2Ab%2Ac", "4:plan1:*4:path7:/a/b/bc",
			"plan_*|path_/a/b/bc"},
		{"plan=g|:\x00d", "3/HOUR shadow", "rls/shop/plan=g%2Ad", "4:plan5:g|:\x00d", "plan_g___d"},
		{"plan=x path=/ac", "", "", "", ""},
		{"plan=x path=/abc path=/abc", "", "", "", ""},
		{"own=x", "50/UNKNOWN quota", "rls/shop/own", "3:own1:x", "own"},
		{"own=4", "7/HOUR", "rls/shop/own=4", "3:own1:4", "own_4"},
		{"none=x", "", "", "", ""},
		{"httproute/default/cheap/rule/0/match/0/*=httproute/default/cheap/rule/0/match/0/* " +
			"rule-0-match-0=rule-0-match-0", "21/HOUR", "rls/shop/httproute%2Fdefault%2Fcheap%2Frule%2F0%2Fmatch%2F0%2F%2A=" +
			"httproute%2Fdefault%2Fcheap%2Frule%2F0%2Fmatch%2F0%2F%2A/rule-0-match-0=rule-0-match-0",
			"40:httproute/default/cheap/rule/0/match/0/*40:httproute/default/cheap/rule/0/match/0/*" +
				"14:rule-0-match-014:rule-0-match-0", "httproute/default/cheap/rule/0/match/0/*_" +
				"httproute/default/cheap/rule/0/match/0/*|rule-0-match-0_rule-0-match-0"},
		{"tenant-a=x", "24/HOUR", "rls/shop/tenant-a=x", "8:tenant-a1:x", "tenant-a_x"},
		{"tenant-a=y", "22/HOUR", "rls/shop/tenant-%2A", "8:tenant-a1:y", "tenant-a"}, // before the bare key
		{"tenant-=y", "22/HOUR", "rls/shop/tenant-%2A", "7:tenant-1:y", "tenant-"},
		{"tenant=y", "", "", "", ""},
		{"tenant_bc=y", "25/HOUR", "rls/shop/tenant_b%2A", "9:tenant_bc0:", "tenant_bc"},
		{"tenant=by", "25/HOUR", "rls/shop/tenant_b%2A", "6:tenant0:", "tenant"},
		{"", "", "", "", ""},
	} {
		var f LookupResult
		list := entries(test.entries)
		d.Walk(list, &f)
		if f.Limit == nil {
			if test.limit != "" {
				t.Errorf("%s: found none", test.entries)
			}
			continue
		}
		limit := fmt.Sprintf("%d/%v", f.Limit.Shown.RequestsPerUnit, f.Limit.Shown.Unit)
		for _, flag := range []struct {
			on   bool
			name string
		}{{f.Limit.Shown.Name != "", f.Limit.Shown.Name}, {f.Limit.Shadow, "shadow"}, {f.Limit.Quota, "quota"}} {
			if flag.on {
				limit += " " + flag.name
			}
		}
		if f.Limit.Unlimited {
			limit = "unlimited"
		}
		series := strings.ReplaceAll(string(f.AppendSeries(nil, list)), "\x00", "|")
		if key := string(f.AppendKey(nil, list)); limit != test.limit || f.Limit.Rule != test.rule || key != test.key ||
			series != test.series {
			t.Errorf("%s: %q %q %q %q", test.entries, limit, f.Limit.Rule, key, series)
		}
	}
	if free := d.root.byKey["plan"].exact["free"].limit; len(free.Replaces) != 1 || free.Replaces[0] != "others" ||
		free.Limit.Window() != time.Second {
		t.Errorf("%+v", free)
	}
	own := d.root.byKey["own"].bare
	if have := fmt.Sprint(own.limit.Metadata); have != "map[deep:map[x:y] list:[a true <nil>] tier:1]" {
		t.Error(have)
	}
}

// What envoyproxy/ratelimit does not need, or skips, is no fault.
func TestLenient(t *testing.T) {
	d := read(t, "name: all\ndomain: shop\ndescriptors: [{key: a, name: 5, rate_limit: {unit: day}}]")
	none := d.root.byKey["a"].bare.limit
	if none.Shown != (rls.Limit{Given: true, Unit: rls.Day}) || none.Limit.Permits() != 0 {
		t.Errorf("without requests_per_unit: %+v, want 0 for a day", none)
	}
}

// A walk costs no memory.
func TestWalkAllocatesNothing(t *testing.T) {
	d, list := read(t, shop), entries("plan=x path=/a/b/bc")
	var f LookupResult
	var key []byte
	if allocs := testing.AllocsPerRun(100, func() {
		d.Walk(list, &f)
		key = f.AppendSeries(f.AppendKey(key[:0], list), list)
	}); allocs != 0 || f.Limit == nil {
		t.Errorf("%v allocations", allocs)
	}
}

// A naive is an entry as envoyproxy/ratelimit has it: everything by texts.
type naive struct {
	below map[string]*naive
	wild  []string
	limit string
}

// walk is GetLimit of envoyproxy/ratelimit, with * anywhere in a value.
func (n *naive) walk(list []rls.Entry) string {
	for i := range list {
		text := string(list[i].Key) + "_" + string(list[i].Value)
		next := n.below[text]
		for _, wild := range n.wild {
			if next == nil && matches(wild, text) {
				next = n.below[wild]
			}
		}
		if next == nil {
			next = n.below[string(list[i].Key)]
		}
		if next == nil {
			return ""
		}
		if i == len(list)-1 {
			return next.limit
		}
		n = next
	}
	return ""
}

// matches compares with a key up to its first _ or last *, and then by trying what each * may stand for.
func matches(wild, text string) bool {
	key, value, valued := strings.Cut(wild, "_")
	if !valued || value == "y*" {
		return strings.HasPrefix(text, strings.TrimSuffix(wild, "*"))
	}
	rest, same := strings.CutPrefix(text, key+"_")
	return same && globs(value, rest)
}

// globs matches by trying everything that a * may stand for.
func globs(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		return globs(pattern[1:], text) || text != "" && globs(pattern, text[1:])
	}
	return text != "" && text[0] == pattern[0] && globs(pattern[1:], text[1:])
}

// Every walk ends where the naive one ends.
func TestWalkLaw(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 19))
		pick := func(some ...string) string { return some[r.IntN(len(some))] }
		limits := 0
		var grow func(text *strings.Builder, indent string, depth int) *naive
		grow = func(text *strings.Builder, indent string, depth int) *naive {
			n := &naive{below: make(map[string]*naive)}
			for range r.IntN(5) {
				key, value := pick("a", "b", "ab*"), pick("", "", "x", "xy", "*", "x*", "*y", "x*y", "x*x*", "**")
				if value == "" {
					key = pick(key, "a*", "*", "a_y*", "ab")
				}
				name := key
				if value != "" {
					name += "_" + value
				}
				if n.below[name] != nil {
					continue
				}
				if strings.Contains(value, "*") || value == "" && strings.HasSuffix(key, "*") {
					n.wild = append(n.wild, name)
				}
				fmt.Fprintf(text, "%s- key: %q\n", indent, key)
				if value != "" {
					fmt.Fprintf(text, "%s  value: %q\n", indent, value)
				}
				limit := ""
				if r.IntN(3) > 0 {
					limits++
					limit = fmt.Sprint(limits)
					fmt.Fprintf(text, "%s  rate_limit: {unit: day, requests_per_unit: %s}\n", indent, limit)
				}
				kid := &naive{}
				if depth < 3 {
					text.WriteString(indent + "  descriptors:\n")
					if kid = grow(text, indent+"    ", depth+1); len(kid.below) == 0 {
						fmt.Fprintf(text, "%s    []\n", indent)
					}
				}
				kid.limit, n.below[name] = limit, kid
			}
			return n
		}
		var text strings.Builder
		text.WriteString("domain: shop\ndescriptors:\n")
		root := grow(&text, "  ", 1)
		if len(root.below) == 0 {
			continue
		}
		d := read(t, text.String())
		var f LookupResult
		for range 100 {
			var list []rls.Entry
			for range r.IntN(4) {
				list = append(list,
					rls.Entry{Key: []byte(pick("a", "a", "b", "b", "ab", "abc", "ab*", "c")),
						Value: []byte(pick("", "x", "y", "xy", "xxy", "xyx", "yx", "*", "x*"))})
			}
			have := ""
			if d.Walk(list, &f); f.Limit != nil {
				have = fmt.Sprint(f.Limit.Shown.RequestsPerUnit)
				found++
			}
			if want := root.walk(list); have != want {
				t.Fatalf("seed %d: %q found limit %q, want %q, in\n%s", seed, list, have, want, text.String())
			}
		}
	}
	if found < 500 {
		t.Errorf("%d limits were found: the test does not reach the trees", found)
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "shop.yaml: line 1: must be an object, is null"},
		{"descriptors: []", "shop.yaml: domain: is missing; must be the name of the domain"},
		{"domain: ''", "shop.yaml: line 1: domain: must not be empty"},
		{"domain: d\ndescriptors:\n  - {value: x}", "shop.yaml: line 3: descriptors[0].key: is missing"},
		{"domain: d\ndescriptors: [{key: a}, {key: a}]",
			"shop.yaml: line 2: descriptors[1]: is given twice: the same key and value in one list"},
		{"domain: d\ndescriptors: [{key: a*}, {key: a*}]", "shop.yaml: line 2: descriptors[1]: is given twice"},
		{"domain: d\ndescriptors: [{key: a*, value: b, share_threshold: true}]",
			"shop.yaml: line 2: descriptors[0].share_threshold: must be false without a value that has a *, or a key " +
				"without value that ends with *"},
		{"domain: d\ndescriptors: [{key: a, Value: b}, {key: a, value: b}]",
			"shop.yaml: line 2: descriptors[1]: is given twice"},
		{"domain: d\ndescriptors: [{key: a, limit: 3}]", "shop.yaml: line 2: descriptors[0].limit: unknown"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight, requests_per_unit: 3}}]",
			`must be one of second, minute, hour, day, week, month, year, is "fortnight"`},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: many}}]",
			`rate_limit.requests_per_unit: must be a whole number, is "many"`},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 4}}]", "rate_limit.unit: is missing"},
		{"domain: d\nunit: day", "unit: unknown"},
		{"domain: d\ndescriptors: [{key: a, unit: day}]", "descriptors[0].unit: unknown"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}]",
			"must be a whole number from 0 to 4294967295, is 4294967296"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 4, window: 3}}]",
			"rate_limit.window: is not allowed without algorithm"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]",
			"rate_limit.unit: is not allowed with unlimited"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {algorithm: token, unit: day}}]",
			"rate_limit.unit: is not allowed with algorithm"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {algorithm: token, capacity: 5}}]", "rate_limit.fillRate: "},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {algorithm: leaky, capacity: 5, fillRate: 1}}]",
			"leaky lets requests wait, and Envoy does not"},
		{"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n, " +
			"replaces: [{name: n}]}}]", "replaces[0].name: must be the name of another limit, is the limit's own"},
		{"domain: d\ndescriptors: [{key: a, metadata: [1]}]", "metadata: must be an object, is a list"},
	} {
		if _, err := Read([]File{{"shop.yaml", []byte(test.text)}}, false); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}

// Files that share a domain are one list, when they may.
func TestMerge(t *testing.T) {
	one := File{"a.yaml", []byte("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]")}
	two := File{"b.yaml", []byte("domain: d\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]")}
	if _, err := Read([]File{one, two}, false); err == nil ||
		!strings.HasPrefix(err.Error(), `b.yaml: line 1: domain: is that of another file too, "d"`) {
		t.Errorf("got %v, want a fault of the domain in b.yaml", err)
	}
	both := testkit.Must(Read([]File{one, two}, true))(t)
	if domains, limits := both.Len(); domains != 1 || limits != 2 {
		t.Errorf("%d domains, %d limits", domains, limits)
	}
	if _, err := Read([]File{one, one}, true); err == nil ||
		!strings.Contains(err.Error(), "descriptors[0]: is given twice") {
		t.Errorf("got %v, want a fault of descriptors[0]", err)
	}
}

// All files together have a bounded number of entries.
func TestEntriesMax(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"domain":"d","descriptors":[{"key":"first"}`)
	for i := range entriesMax - 1 {
		fmt.Fprintf(&text, `,{"key":"k","value":%d}`, i)
	}
	text.WriteString("]}")
	full := File{"a.json", []byte(text.String())}
	if _, err := Read([]File{full}, false); err != nil {
		t.Fatal(err)
	}
	_, err := Read([]File{full, {"b.yaml", []byte("domain: e\ndescriptors: [{key: a}, {key: b}]")}}, false)
	if want := "b.yaml: line 2: descriptors: is too much: all files together must have at " +
		"most 100000 descriptors"; err == nil || err.Error() != want {
		t.Errorf("%.300v, want %s", err, want)
	}
}
