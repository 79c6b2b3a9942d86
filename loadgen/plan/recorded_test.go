package plan

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/test/testkit"
	"weir/loadgen/profile"
)

// recordings are traces that others have published, where they are; own ones of
// the same form stand in for them in testdata.
var recordings = []struct {
	path  string // from the folder of the traces on
	own   string // in testdata/traces
	twin  func(t *testing.T, lines []string) (total float64, length time.Duration)
	exact func(t *testing.T, p *profile.Profile, lines []string)
}{
	{"nasa_http_1995/nasa_1s_1995-07-13.csv", "seconds.csv", countsOver(seconds), nil},
	{"nasa_http_1995/nasa_1min.csv", "minutes.csv", countsOver(stamp), nil},
	{"worldcup98_group_stage/wc98_1min_0505_0625.csv", "minutes.csv", countsOver(stamp), nil},
	{"nab_elb_request_count/elb_request_count_8c0756.csv", "fives.csv", countsOver(stamp), nil},
	{"azure_llm_conv_2023/AzureLLMInferenceTrace_conv.csv", "requests.csv", requestsOver, sameTimes},
	{"autothrottle_traces/diurnal.txt", "rates.txt", rates, nil},
	{"autothrottle_traces/noisy.txt", "rates.txt", rates, nil},
	{"", "access.log", accesses, nil},
}

// open returns where a recording is, and its lines without a header.
func open(t *testing.T, path, own string) (file string, lines []string) {
	t.Helper()
	file = filepath.Join("..", "..", "..", "shared", "traces", path)
	if info, err := os.Stat(file); path == "" || err != nil || info.IsDir() {
		file = filepath.Join("testdata", "traces", own)
	}
	text := testkit.Must(os.ReadFile(file))(t)
	lines = strings.Split(strings.TrimSpace(string(text)), "\n")
	if c := lines[0][0]; (c < '0' || c > '9') && !strings.Contains(lines[0], "[") {
		lines = lines[1:]
	}
	return file, lines
}

// Recorded traffic is played as it is written down: as many requests, over as
// long, whether the file is compressed or not.
func TestRecordings(t *testing.T) {
	for _, c := range recordings {
		t.Run(c.own+" "+c.path, func(t *testing.T) {
			t.Parallel()
			file, lines := open(t, c.path, c.own)
			wantTotal, wantLength := c.twin(t, lines)
			for _, name := range compressed(t, file) {
				trace := testkit.Must(readTrace(name, ""))(t)
				p, length, err := profile.NewTrace(trace, profile.TraceOptions{Speedup: 1, ScaleRps: 1, Name: name})
				if err != nil {
					t.Fatal(err)
				}
				total := p.Cumulative(length).Float()
				if math.Abs(total-wantTotal) > 1e-3*float64(len(lines))+1e-6*wantTotal ||
					(length-wantLength).Abs() > time.Microsecond {
					t.Errorf("%s: %.3f requests in %v, want %.3f in %v", filepath.Base(name), total, length, wantTotal, wantLength)
				}
				if c.exact != nil {
					c.exact(t, p, lines)
				}
			}
		})
	}
}

// compressed is the file itself, and as gzip and zstd make it.
func compressed(t *testing.T, file string) []string {
	t.Helper()
	text := testkit.Must(os.ReadFile(file))(t)
	dir := t.TempDir()
	names := []string{file, filepath.Join(dir, "t.csv.gz"), filepath.Join(dir, "t.csv.zst")}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal("cannot compress")
	}
	e := testkit.Must(zstd.NewWriter(nil))(t)
	write(t, dir, "t.csv.gz", b.Bytes())
	write(t, dir, "t.csv.zst", e.EncodeAll(text, nil))
	return names
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	return testkit.Must(strconv.ParseFloat(text, 64))(t)
}

func seconds(t *testing.T, text string) time.Time { return time.Unix(int64(number(t, text)), 0) }

func stamp(t *testing.T, text string) time.Time {
	t.Helper()
	return testkit.Must(time.Parse("2006-01-02 15:04:05", text))(t)
}

// countsOver sums the second column. The last count lasts as long as most do,
// which is as long as the first one in these recordings.
func countsOver(at func(*testing.T, string) time.Time) func(*testing.T, []string) (float64, time.Duration) {
	return func(t *testing.T, lines []string) (total float64, length time.Duration) {
		cut := func(i int) (time.Time, float64) {
			when, count, _ := strings.Cut(lines[i], ",")
			return at(t, when), number(t, count)
		}
		first, _ := cut(0)
		second, _ := cut(1)
		last, _ := cut(len(lines) - 1)
		for i := range lines {
			_, n := cut(i)
			total += n
		}
		return total, last.Sub(first) + second.Sub(first)
	}
}

// rates adds a second of each line.
func rates(t *testing.T, lines []string) (total float64, length time.Duration) {
	for _, l := range lines {
		total += number(t, l)
	}
	return total, time.Duration(len(lines)) * time.Second
}

// requestsOver has a request in every line, from the second of the first on.
func requestsOver(t *testing.T, lines []string) (float64, time.Duration) {
	all := timesOf(t, lines)
	return float64(len(lines)), all[len(all)-1] + 1
}

func timesOf(t *testing.T, lines []string) (all []time.Duration) {
	t.Helper()
	var start time.Time
	for i, l := range lines {
		text, _, _ := strings.Cut(l, ",")
		at := stamp(t, text) // which takes a fraction
		if i == 0 {
			start = at.Truncate(time.Second)
		}
		all = append(all, at.Sub(start))
	}
	return all
}

// sameTimes: each request comes when it came, to the nanosecond but for those
// that came at the same one.
func sameTimes(t *testing.T, p *profile.Profile, lines []string) {
	for k, want := range timesOf(t, lines) {
		if got := p.Inverse(profile.Arrivals(uint64(k)) + profile.Half); got < want || got > want+10 {
			t.Fatalf("request %d comes at %d ns, came at %d ns", k, got, want)
		}
	}
}

// accesses counts the lines; times are whole seconds, and the last one counts.
func accesses(t *testing.T, lines []string) (float64, time.Duration) {
	at := func(l string) time.Time {
		_, rest, _ := strings.Cut(l, "[")
		text, _, _ := strings.Cut(rest, "]")
		return testkit.Must(time.Parse("02/Jan/2006:15:04:05 -0700", text))(t)
	}
	return float64(len(lines)), at(lines[len(lines)-1]).Sub(at(lines[0])) + time.Second
}

// A recording of a day is a test of minutes: what is sent is what was written
// down, scaled, and the shards of it add up to that.
func TestRecordingAsPlan(t *testing.T) {
	file, lines := open(t, "nasa_http_1995/nasa_1s_1995-07-13.csv", "seconds.csv")
	want, length := countsOver(seconds)(t, lines)
	const speedup, scale = 60, 0.5
	for _, shards := range []int{1, 3} {
		total := uint64(0)
		for i := range shards {
			config := fmt.Sprintf(`{"limiterUrl":"http://a","duration":%g,"shard":{"index":%d,"of":%d},"profile":{"type":"trace","params":{"file":%q,"speedup":%d,"scaleRps":%g}}}`,
				length.Seconds()/speedup, i, shards, file, speedup, scale)
			p := testkit.Must(Parse(now, []byte(config), ""))(t)
			schedule := p.Schedule.ForLoop(0, 1)
			total += schedule.Waiting(p.Schedule.Length())
		}
		if math.Abs(float64(total)-want*scale) > 1 {
			t.Errorf("%d shards send %d requests, want %v", shards, total, want*scale)
		}
	}
}
