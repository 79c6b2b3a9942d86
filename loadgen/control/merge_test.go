package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/loadgen/record"
	"weir/loadgen/report"
)

// shard writes the result of shard i of two into a file, as run -out does.
func shard(t *testing.T, i int, hash string) string {
	t.Helper()
	totals, tally := record.NewTotals(), record.NewTally()
	start := time.Unix(1000, 0).UTC()
	for range 10 {
		tally.Start(0, 0, -time.Second, false)
		o := record.Outcome{Status: 200}
		o.Due, o.Start, o.Done = start, start, start.Add(time.Duration(i+1)*time.Millisecond)
		tally.Finish(&o, start.Add(time.Second))
	}
	totals.Add(tally)
	totals.Row(0, 10)
	r := totals.Result(record.Result{
		TestID: "t", StartedAt: start, Duration: 1, Elapsed: 1, End: record.EndCompleted, Due: 10,
		Shards: []record.Shard{{Index: i, Of: 2}}, ScheduleHash: hash, Config: map[string]any{"seed": 1},
	}, 10, nil)
	text := testkit.Must(report.JSON(r))(t)
	return file(t, string(text))
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "result.json")
	testkit.WriteFile(t, name, text)
	return name
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	out, page := filepath.Join(dir, "sum.json"), filepath.Join(dir, "sum.html")
	var summary strings.Builder
	err := Merge([]string{shard(t, 1, "5a7e"), shard(t, 0, "5a7e")}, Outputs{Out: out, Report: page, Summary: &summary})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(summary.String(), "shards 0, 1 of 2, schedule 5a7e") ||
		!strings.Contains(summary.String(), "20 due, 20 sent") {
		t.Errorf("it prints %s", &summary)
	}
	sum := testkit.Must(readResult(out))(t)
	if sum.Sent != 20 || sum.Latency.Count != 20 || len(sum.Shards) != 2 {
		t.Errorf("the sum is %+v", sum)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "shards 0, 1 of 2") {
		t.Errorf("the page: %v", err)
	}
}

func TestMergeRefused(t *testing.T) {
	good := shard(t, 0, "5a7e")
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"one file":         {[]string{good}, "at least two are needed, there are 1"},
		"no file":          {nil, "at least two are needed, there are 0"},
		"the same twice":   {[]string{good, good}, "shard 0, which another result contains too"},
		"another schedule": {[]string{good, shard(t, 1, "beef")}, "its hash is beef"},
		"absent":           {[]string{good, good + ".absent"}, "no such file"},
		"not JSON":         {[]string{good, file(t, "PK")}, "invalid character 'P'"},
		"cut off":          {[]string{good, file(t, `{"testId":"x","verdict":"VAL`)}, "unexpected end of JSON"},
		"another document": {[]string{good, file(t, `{"profile":{"type":"constant"}}`)},
			"was not written by loadgen run -out"},
		"a broken histogram": {[]string{good, file(t, `{"schema":1,"histograms":{"lag":"HISTFAAA"}}`)}, "histogram: "},
		"a folder":           {[]string{good, t.TempDir()}, "is a directory"},
	} {
		var summary strings.Builder
		err := Merge(c.files, Outputs{Summary: &summary})
		exit, ok := errors.AsType[*service.ExitError](err)
		if !ok || exit.Status != exitConfig || !strings.Contains(exit.Err.Error(), c.want) || summary.Len() > 0 {
			t.Errorf("%s: %v, printed %q, want status 2 and %q", name, err, &summary, c.want)
		}
	}
	err := Merge([]string{good, shard(t, 1, "5a7e")},
		Outputs{Report: "/no/such/folder/r.html", Summary: new(strings.Builder)})
	if e, ok := errors.AsType[*service.SettingError](err); !ok || e.Name != "REPORT" {
		t.Errorf("a report that cannot be: %v", err)
	}
}

// A sum that lacks a generator is INVALID, and ends as such a run does.
func TestMergeEnds(t *testing.T) {
	one := shard(t, 0, "5a7e")
	text := testkit.Must(os.ReadFile(one))(t)
	three := func(i string) string {
		return file(t, strings.Replace(strings.Replace(string(text), `"of": 2`, `"of": 3`, 1), `"index": 0`,
			`"index": `+i, 1))
	}
	err := Merge([]string{three("0"), three("2")}, Outputs{Summary: new(strings.Builder)})
	if exit, ok := errors.AsType[*service.ExitError](err); !ok || exit.Status != exitInvalid {
		t.Errorf("it ends with %v", err)
	}
}
