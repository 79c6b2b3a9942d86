package rls

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/data/strict"
)

func parse(text string) (*Request, error) {
	var n strict.Node
	if err := n.Parse([]byte(text)); err != nil {
		return nil, err
	}
	r := new(Request)
	return r, r.Read(&n)
}

// Both names of a field, numbers as strings, and units by name or number are read.
func TestRead(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{}`, `"" hits=0`},
		{`{"domain":"d","hitsAddend":3}`, `"d" hits=3`},
		{`{"domain":"\u0064","hits_addend":"4"}`, `"d" hits=4`},
		{`{"domain":null,"descriptors":null,"hitsAddend":1e2}`, `"" hits=100`},
		{`{"descriptors":[{"entries":[{"key":"a","value":"b"},{"key":"c"}]},{}]}`, `"" hits=0 [a=b c=] []`},
		{`{"descriptors":[{"entries":[],"hitsAddend":"18446744073709551615"}]}`, `"" hits=0 [] hits=18446744073709551615`},
		{`{"descriptors":[{"hits_addend":0,"isNegativeHits":true}]}`, `"" hits=0 [] hits=0 negative`},
		{`{"descriptors":[{"limit":{"requestsPerUnit":"7","unit":"WEEK"}}]}`, `"" hits=0 [] limit=7/WEEK`},
		{`{"descriptors":[{"limit":{"requests_per_unit":4294967295,"unit":4}}]}`, `"" hits=0 [] limit=4294967295/DAY`},
		{`{"descriptors":[{"limit":{"unit":-1}},{"limit":{}}]}`, `"" hits=0 [] limit=0/UNKNOWN [] limit=0/UNKNOWN`},
		{`{"hitsAddend":1.50e1}`, `"" hits=15`},
		{`{"hitsAddend":-0.0e5}`, `"" hits=0`},
		{`{"hitsAddend":0.00100E+3}`, `"" hits=1`},
	} {
		r, err := parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if have := r.String(); have != test.want {
			t.Errorf("%s: %s, want %s", test.text, have, test.want)
		}
	}
}

// String writes all of a request.
func (r *Request) String() string {
	text := fmt.Sprintf("%q hits=%d", r.Domain, r.HitsAddend)
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		var entries []string
		for _, e := range d.Entries {
			entries = append(entries, string(e.Key)+"="+string(e.Value))
		}
		text += " [" + strings.Join(entries, " ") + "]"
		if d.Override.Given {
			text += fmt.Sprintf(" limit=%d/%v", d.Override.RequestsPerUnit, d.Override.Unit)
		}
		if d.Hits.Given {
			text += fmt.Sprintf(" hits=%d", d.Hits.Value)
		}
		if d.Negative {
			text += " negative"
		}
	}
	return text
}

// A fault has its path, and says what is allowed.
func TestReadFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, `not valid JSON: line 1, column 1: want a value, have the end`},
		{`[]`, `must be an object, is a list`},
		{`{"domain":5}`, `domain: must be a string, is 5`},
		{`{"Domain":"d"}`, `Domain: is unknown; the fields are domain, descriptors, hitsAddend`},
		{`{"domain":"a","domain":"b"}`, `domain: is given twice`},
		{`{"hitsAddend":1,"hits_addend":1}`, `hits_addend: is given twice`},
		{`{"hitsAddend":4294967296}`, `hitsAddend: must be a whole number from 0 to 4294967295, is 4294967296`},
		{`{"hitsAddend":-1}`, `hitsAddend: must be a whole number from 0 to 4294967295, is -1`},
		{`{"hitsAddend":1.5}`, `hitsAddend: must be a whole number from 0 to 4294967295, is 1.5`},
		{`{"hitsAddend":1e99999999999999999999}`,
			`hitsAddend: must be a whole number from 0 to 4294967295, is 1e99999999999999999999`},
		{`{"hitsAddend":" 1"}`, `hitsAddend: must be a whole number from 0 to 4294967295, is " 1"`},
		{`{"hitsAddend":""}`, `hitsAddend: must be a whole number from 0 to 4294967295, is ""`},
		{`{"hitsAddend":"01"}`, `hitsAddend: must be a whole number from 0 to 4294967295, is "01"`},
		{`{"descriptors":{}}`, `descriptors: must be a list, is an object`},
		{`{"descriptors":[null]}`, `descriptors[0]: must be an object, is null`},
		{`{"descriptors":[{},{"entries":[{"kee":"a"}]}]}`,
			`descriptors[1].entries[0].kee: is unknown; the fields are key, value`},
		{`{"descriptors":[{"limit":{"unit":"second"}}]}`,
			`descriptors[0].limit.unit: must be one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK, is "second"`},
		{`{"descriptors":[{"limit":{"unit":1.5}}]}`,
			`descriptors[0].limit.unit: must be the name or the number of a unit, is 1.5`},
		{`{"descriptors":[{"hitsAddend":18446744073709551616}]}`,
			`descriptors[0].hitsAddend: must be a whole number from 0 to 18446744073709551615, is 18446744073709551616`},
		{`{"descriptors":[{"isNegativeHits":"true"}]}`, `descriptors[0].isNegativeHits: must be true or false, is "true"`},
	} {
		if _, err := parse(test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}

func TestAppendResponse(t *testing.T) {
	r := &Response{
		OverallCode: OverLimit,
		Statuses: []Status{
			{Code: OverLimit, Limit: Limit{Given: true, Name: `a"b`, RequestsPerUnit: 10, Unit: Month},
				UntilReset: 3 * time.Second},
			{Code: OK, Limit: Limit{Given: true}, Remaining: 7},
			{Code: OK},
		},
		Headers:  []Header{{[]byte("RateLimit-Limit"), []byte("10")}, {[]byte("Empty"), nil}},
		RawBody:  []byte{0, 255},
		Metadata: Struct{"b": Struct{"\n": "é\xff"}, "a": []any{nil, true, 1.5, 1e6, -1e21}},
	}
	want := `{"overallCode":"OVER_LIMIT","statuses":[` +
		`{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":10,"unit":"MONTH","name":"a\"b"},"durationUntilReset":"3s"},` +
		`{"code":"OK","currentLimit":{},"limitRemaining":7},{"code":"OK"}],` +
		`"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"10"},{"key":"Empty"}],"rawBody":"AP8=",` +
		`"dynamicMetadata":{"a":[null,true,1.5,1000000,-1e+21],"b":{"\u000a":"é` + "\uFFFD" + `"}}}`
	if have := string(AppendResponse(nil, r)); have != want || !json.Valid([]byte(have)) {
		t.Errorf("%s, want %s", have, want)
	}
	if have := string(AppendResponse(nil, new(Response))); have != "{}" {
		t.Error(have)
	}
}

// Reading and writing use their memory again.
func TestNothingIsAllocated(t *testing.T) {
	body := []byte(`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}]},{"entries":[{"key":"c","value":"d"}],"hitsAddend":"2"}]}`)
	answer := &Response{OverallCode: OK,
		Statuses: []Status{{Code: OK, Limit: Limit{Given: true, RequestsPerUnit: 3, Unit: Day}, Remaining: 2,
			UntilReset: time.Second}}}
	var n strict.Node
	var r Request
	var out []byte
	if allocs := testing.AllocsPerRun(100, func() {
		if err := n.Parse(body); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(&n); err != nil {
			t.Fatal(err)
		}
		out = AppendResponse(out[:0], answer)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// What is read does not depend on what was read before, and whatever protojson would take
// for a number is one that this reads or refuses, never another.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}],"limit":{"requestsPerUnit":"3","unit":"DAY"},"hitsAddend":"1e2"}],"hits_addend":7}`,
		`{"descriptors":[{"isNegativeHits":true,"hits_addend":18446744073709551615},null]}`, `{"domain":"\ud83d\ude00"}`,
		`{"hitsAddend":-0}`, `{"hitsAddend":1.0E1}`,
	} {
		f.Add([]byte(seed))
	}
	var again Request
	var n strict.Node
	f.Fuzz(func(t *testing.T, body []byte) {
		fresh, err := parse(string(body))
		errAgain := n.Parse(body)
		if errAgain == nil {
			errAgain = again.Read(&n)
		}
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("%v, then %v", err, errAgain)
		}
		if err != nil {
			return
		}
		if fresh.String() != again.String() {
			t.Fatalf("%v, then %v", fresh, &again)
		}
		var loose struct {
			HitsAddend json.Number `json:"hitsAddend"`
		}
		if json.Unmarshal(body, &loose) == nil && loose.HitsAddend != "" {
			if value, err := loose.HitsAddend.Float64(); err != nil || value != float64(fresh.HitsAddend) {
				t.Fatalf("%s: read %d", loose.HitsAddend, fresh.HitsAddend)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	body, _ := oneAsk(b)
	var n strict.Node
	var r Request
	b.ReportAllocs()
	for b.Loop() {
		if n.Parse(body) != nil || r.Read(&n) != nil {
			b.Fatal("refused")
		}
	}
}
