package scenario

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"weir/bench/rig"
)

// outageResult is an outage from second 2 to 4 of a run of 6.
const outageResult = `{"requestsSent":12000,"success":8000,"errors":4000,"statusCodes":{"200":8000,"502":4000},
 "series":{"rows":[{"t":0,"success":2000},{"t":1,"success":2000},{"t":2,"errors":2000},{"t":3,"errors":2000},{"t":4,"success":2000},{"t":5,"success":2000}]}}`

func TestShowOutage(t *testing.T) {
	for _, c := range []struct {
		name, from, to, problem string
	}{
		{"as it should be", "", "", ""},
		{"a failure before", `{"t":0,"success":2000}`, `{"t":0,"success":1999,"errors":1}`, "1 failures in second 0"},
		{"a failure long after", `{"t":5,"success":2000}`, `{"t":5,"errors":1}`, "1 failures in second 5"},
		{"a strange status", `"502":4000`, `"502":3999,"500":1`, "status 500"},
		{"no answer", `"502":4000`, `"502":3990`, "10 requests without an answer"},
		{"too many", `"errors":4000`, `"errors":9000`, "9000 failures"},
	} {
		var l rig.Loaded
		if err := json.Unmarshal([]byte(strings.Replace(outageResult, c.from, c.to, 1)), &l); err != nil {
			t.Fatal(err)
		}
		o := outcome{loads: []*rig.Loaded{&l}, troubles: []Trouble{{2 * time.Second, killTarget}, {4 * time.Second, restartTarget}}}
		err := o.showOutage(io.Discard)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.problem)
		}
	}
}
