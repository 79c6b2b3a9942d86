package profile

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// play is the profile of a trace, and how long it lasts.
func play(t testing.TB, text string, o TraceOptions) (*Profile, time.Duration) {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	o.Name = "x.csv"
	p, length, err := NewTrace(trace, o)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return p, length
}

const apache = `10.0.0.1 - frank [19/Jan/2026:16:30:%02d +0100] "GET /api/test HTTP/1.1" 200 2 "-" "curl/8.5"` + "\n"

// log is an access log with requests at the given seconds.
func log(seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, apache, s)
	}
	return b.String()
}

// Every form of a trace is read as what it is: by the amounts reached at the
// given times.
func TestTraceForms(t *testing.T) {
	type amounts map[time.Duration]float64
	for name, c := range map[string]struct {
		text   string
		length time.Duration
		want   amounts
	}{
		"rates, a line a second": {"10\n20\n30\n", 3 * second, amounts{second: 10, 2 * second: 30, 3 * second: 60,
			4 * second: 60}},
		"a header and rates":      {"rps\n10\n20\n", 2 * second, amounts{second: 10, 2 * second: 30}},
		"counts a second":         {"count\n10\n20\n", 2 * second, amounts{second: 10, 2 * second: 30}},
		"time and rate, no names": {"0,10\n10,20\n", 20 * second, amounts{10 * second: 100, 20 * second: 300}},
		"rates over time":         {"t,rps\n5,10\n15,20\n", 20 * second, amounts{10 * second: 100, 20 * second: 300}},
		"counts over time": {"timestamp,value\n2014-04-10 00:04:00,94.0\n2014-04-10 00:09:00,56.0\n",
			10 * time.Minute, amounts{150 * second: 47, 5 * time.Minute: 94, 10 * time.Minute: 150}},
		"a gap between counts": {"minute,count\n0,6\n60,6\n180,6\n240,6\n300,6\n", 6 * time.Minute,
			amounts{time.Minute: 6, 2 * time.Minute: 12, 3 * time.Minute: 12, 4 * time.Minute: 18, 6 * time.Minute: 30}},
		"a gap between rates": {"t,rps\n0,1\n60,2\n180,1\n240,1\n", 5 * time.Minute, amounts{3 * time.Minute: 60 + 240}},
		"one count":           {"t,count\n100,7\n", second, amounts{second: 7}},
		"quotes and other names": {"\"Date\";\"other\";\"Requests\"\n\"2026-01-01\";x;86400\n\"2026-01-02\";y;0\n",
			48 * time.Hour, amounts{time.Hour: 3600, 24 * time.Hour: 86400}},
		"tabs, zones, fractions": {"time\tqps\n2026-01-01T00:00:00.5+01:00\t4\n2025-12-31T23:00:02.5Z\t8\n", 4 * second,
			amounts{2 * second: 8, 4 * second: 24}},
		"comments and a mark": {"\ufeff# made by hand\n\nt,rps\n# more\n0,1\n\n1,2\n", 2 * second,
			amounts{second: 1, 2 * second: 3}},
		"access log": {log(0, 0, 1, 5, 4, 5), 6 * second,
			amounts{second: 2, 2 * second: 3, 4 * second: 3, 5 * second: 4, 5500 * time.Millisecond: 5, 6 * second: 6}},
		"access log, common": {`h - - [31/Dec/2025:23:59:59 -0800] "GET /" 200 -` + "\n" +
			`h - - [01/Jan/2026:08:00:00 +0000] "GET /" 200 -` + "\n", 2 * second, amounts{second: 1, 2 * second: 2}},
		"requests at seconds": {
			"timestamp,tokens\n2026-01-01 00:00:01,5\n2026-01-01 00:00:00,5\n2026-01-01 00:00:01,7\n", 2 * second,
			amounts{second: 1, 2 * second: 3}},
		"requests with ids":        {"time,user,bytes\n0,a,1\n1,b,x\n2,c,3\n", 3 * second, amounts{second: 1, 3 * second: 3}},
		"few requests, at seconds": {"time,bytes\n0,5\n7,5\n9,5\n", 10 * second, amounts{second: 1, 10 * second: 3}},
		"rates with numbers":       {"rps,users\n1,5\n1,5\n1,5\n", 3 * second, amounts{second: 1, 3 * second: 3}},
		"times without a name": {"2026-01-01 00:00:01\n2026-01-01 00:00:03\n", 3 * second,
			amounts{second: 1, 2 * second: 1, 3 * second: 2}},
	} {
		p, length := play(t, c.text, TraceOptions{Speedup: 1, ScaleRps: 1})
		if length != c.length {
			t.Errorf("%s: it lasts %v, want %v", name, length, c.length)
		}
		for at, want := range c.want {
			if got := p.Cumulative(at).Float(); math.Abs(got-want) > 1e-5 {
				t.Errorf("%s: %v arrivals by %v, want %v", name, got, at, want)
			}
		}
	}
}

// Requests with times finer than a second come each at its own time.
func TestTraceOfSingleRequests(t *testing.T) {
	p, length := play(t, "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46.6805900,374\n2023-11-16 "+
		"18:15:51.2224670,5\n2023-11-16 18:15:50.9951690,396\n2023-11-16 18:15:50.9951690,1\n",
		TraceOptions{Speedup: 1, ScaleRps: 1})
	want := []time.Duration{680_590_000, 4_995_169_000, 4_995_169_001, 5_222_467_000}
	for k, w := range want {
		if got := p.Inverse(Arrivals(uint64(k)) + Half); got != w {
			t.Errorf("request %d comes at %d ns, want %d ns", k, got, w)
		}
	}
	if length != want[3]+1 || p.Inverse(Arrivals(4)+Half) != math.MaxInt64 {
		t.Errorf("it lasts %v, a fifth request comes at %v", length, p.Inverse(Arrivals(4)+Half))
	}
	if got := p.RateMax(); got != 3 {
		t.Errorf("at most %v in a second, want 3", got)
	}
	if got := p.Rate(5 * second); math.Abs(got-2.615) > 0.001 {
		t.Errorf("the rate in the second around 5 s is %v, want 2.615", got)
	}
}

// Played faster the same requests come in less time; scaled there are more of
// them.
func TestTraceSpeedAndScale(t *testing.T) {
	for name, text := range map[string]string{
		"rates": "t,rps\n0,10\n60,30\n", "counts": "t,count\n0,600\n60,1800\n", "log": log(0, 1, 2, 3),
		"single": "t,x\n0.5,1\n1.25,1\n",
	} {
		plain, length := play(t, text, TraceOptions{Speedup: 1, ScaleRps: 1})
		fast, fastLength := play(t, text, TraceOptions{Speedup: 4, ScaleRps: 0.5})
		if d := fastLength - length/4; d < -1 || d > 1 {
			t.Errorf("%s: four times faster it lasts %v, not %v", name, fastLength, length/4)
		}
		for _, share := range []time.Duration{3, 2, 1} {
			at := length / share / 4 * 4
			got, want := fast.Cumulative(at/4).Float(), plain.Cumulative(at).Float()/2
			if math.Abs(got-want) > 1e-4 {
				t.Errorf("%s: %v arrivals by %v when played faster, want %v", name, got, at/4, want)
			}
		}
	}
}

// A trace that is broken is refused with the number of the line.
func TestTraceRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"\n\n", "nothing but comments and empty lines"},
		{"# nothing\n", "nothing but comments and empty lines"},
		{"t,rps\n", "it has no rows"},
		{"1\n2\nx\n", "line 3: the rate or count must be a number"},
		{"1\n-2\n", "line 2: the rate or count must be a number from 0"},
		{"1\nNaN\n", "line 2: the rate or count"},
		{"1\n1e13\n", "line 2: the rate or count"},
		{"t,rps\n0,1\n\n# x\n1,y\n", "line 5: the rate or count"},
		{"t,rps\n0,1\nnoon,2\n", "line 3: the time must be a number of seconds or like 2026-01-19 16:30:00"},
		{"t,rps\n0,1\n0,2\n", "line 3: the time must be after that of the line before"},
		{"t,rps\n5,1\n4,2\n", "line 3: the time must be after"},
		{"t,rps\n0,1\n4000000000,2\n", "line 3: the time is more than a hundred years"},
		{"t,rps\n0,1\n1,2,3\n", "line 3: wrong number of fields"},
		{"t,rps\n0,1\n1,\"2\n", "line 3: "},
		{"1,2,3\n", "line 1: there are 3 columns without names"},
		{"\"Time\",\"rate(x_total[1m])\"\n0,300\n10,300\n20,\n",
			`line 1: column "rate(x_total[1m])" contains numbers at even times and has no known name; allowed: rps, rate,`},
		{"Time,a,b\n0,300 req/s,1\n10,1.5 K,2\n30,7e-3,\n40,1,1\n", `column "a", "b" contains numbers`},
		{"time,requests/s\n2026-01-01 00:02:00,1\n2026-01-01 00:01:00,2\n2026-01-01 00:00:00,3\n",
			`column "requests/s" contains numbers`},
		{"Zeit,count\n2026-01-01 00:00:00,60\n2026-01-01 00:01:00,60\n",
			`column "Zeit" contains times and has no known name; allowed: timestamp,`},
		{"a,b\n1,2\n", "line 1: no known column: a time (timestamp, time,"},
		{log(1, 2) + "garbage\n", "line 3: is not a line of an access log"},
		{log(1) + "\n" + strings.Replace(log(2), "Jan", "Jam", 1), "line 3: is not a line of an access log"},
	} {
		_, err := ReadTrace(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
}

// A line has a bound, of which the error tells; quoted line breaks do not get around it, and
// what is no line of its own does not count.
func TestTraceLineBound(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	const tooLong = ": it is longer than 1048576 bytes"
	logLine := strings.TrimSuffix(log(1), "\n")
	for _, c := range []struct{ name, text, want string }{
		{"a log", logLine + x(lineBytesMax-len(logLine)) + "\n" + log(2), ""},
		{"a log", log(1) + logLine + x(lineBytesMax+1-len(logLine)) + "\n" + log(2), "line 2" + tooLong},
		{"a log without an end", log(1, 2) + logLine + x(lineBytesMax-len(logLine)), ""},
		{"a log without an end", log(1, 2) + logLine + x(lineBytesMax+1-len(logLine)), "line 3" + tooLong},
		{"a log with quotes", log(1) + logLine + "\"\n" + logLine + x(lineBytesMax-len(logLine)) + "\n", ""},
		{"CSV", "rps,a\n1," + x(lineBytesMax-2) + "\n2,\n", ""},
		{"CSV", "rps,a\n1,\n2," + x(lineBytesMax-1) + "\n", "line 3" + tooLong},
		{"the names", "rps," + x(lineBytesMax), "line 1" + tooLong},
		{"quoted line breaks", "rps,a\n1,\"" + strings.Repeat("\n", lineBytesMax-4) + "\"\n2,\n", ""},
		{"quoted line breaks", "rps,a\n1,\"" + strings.Repeat("\n", lineBytesMax-3) + "\"\n2,\n", "line 2" + tooLong},
		{"quotes in quotes", "rps,a\n1,\"a\"\"\n" + strings.Repeat("x\n", lineBytesMax/2) + "\"\n", "line 2" + tooLong},
		{"many short lines", "rps,a\n" + strings.Repeat("1,\"a\"\"b\"\n", lineBytesMax/4), ""},
		{"comments", "rps\n" + strings.Repeat("# it's 5\" wide\n", lineBytesMax/8) + "1\n", ""},
		{"empty lines", "rps\n" + strings.Repeat("\n", lineBytesMax*2) + "1\n", ""},
		{"a comment", "rps\n#" + x(lineBytesMax) + "\n1\n", "line 2" + tooLong},
	} {
		_, err := ReadTrace(strings.NewReader(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s of %d bytes: %v, want %q", c.name, len(c.text), err, c.want)
		}
	}
}

// A trace of one endless line is refused after a few times the bound: the reader never sees more.
func TestTraceOfOneLineIsNotRead(t *testing.T) {
	for _, begin := range []string{"rps,a\n1,", "rps,a\n1,\"\n", strings.TrimSuffix(log(1), "\n")} {
		rest := &io.LimitedReader{R: endless{}, N: 1 << 40}
		if _, err := ReadTrace(io.MultiReader(strings.NewReader(begin), rest)); err == nil {
			t.Error("it was accepted")
		}
		if read := 1<<40 - rest.N; read > 2*lineBytesMax {
			t.Errorf("%q…: %d bytes were read", begin, read)
		}
	}
}

// endless is the letter x, again and again.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What a trace asks for has bounds.
func TestTraceBounds(t *testing.T) {
	for _, c := range []struct {
		text string
		o    TraceOptions
		want string
	}{
		{"1\n", TraceOptions{0, 1, ""}, "speedup: must be a number from 1e-06 to 1e+06, is 0"},
		{"1\n", TraceOptions{1, -1, ""}, "scaleRps: must be a number from"},
		{"1\n", TraceOptions{1, math.NaN(), ""}, "scaleRps: must be a number from"},
		{"0\n0\n", TraceOptions{1, 1, ""}, "it contains no requests"},
		{"1\n20000000\n", TraceOptions{1, 1, ""},
			"line 2: it contains more than 10000000 requests per second, with speedup 1 and scaleRps 1"},
		{"1\n100\n", TraceOptions{1e6, 1, ""},
			"line 2: it contains more than 10000000 requests per second, with speedup 1e+06"},
		{"1\n1\n1\n", TraceOptions{1e-6, 1, ""}, ""},
		{"t,rps\n0,1\n1000,1\n", TraceOptions{1e-6, 1, ""}, "line 2: it is more than a year after the first request"},
		{"t,x\n0.5,1\n40,1\n", TraceOptions{1e-6, 1, ""}, "line 3: it is more than a year after the first request"},
		{log(1, 59), TraceOptions{1e-6, 1, ""}, "it is more than a year after the first request"},
		{log(1, 1, 1, 1), TraceOptions{1e6, 1e6, ""}, "it contains more than 10000000 requests per second"},
	} {
		trace, err := ReadTrace(strings.NewReader(c.text))
		if err != nil {
			t.Fatalf("%.40q: %v", c.text, err)
		}
		_, _, err = NewTrace(trace, c.o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.40q played with %+v: %v, want %q", c.text, c.o, err, c.want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, text := range []string{
		"1\n2\n", "t,rps\n0,1\n60,2\n", "timestamp,count\n2026-01-01 00:00:00,5\n2026-01-01 00:01:00,6\n",
		"TIMESTAMP,x\n2023-11-16 18:15:46.68,1\n2023-11-16 18:15:46.69,1\n", log(1, 2, 2), "a;b\n", "#\n\n1e300\n",
	} {
		f.Add(text, 1.0, 1.0)
	}
	f.Fuzz(func(t *testing.T, text string, speedup, scale float64) {
		trace, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		p, length, err := NewTrace(trace, TraceOptions{speedup, scale, "x"})
		if err != nil {
			return
		}
		// What is accepted rises to its end, and can be asked anything.
		total := p.Cumulative(length)
		last := time.Duration(0)
		for i := range Count(20) {
			s := total / 20 * i
			at := p.Inverse(s)
			if at < last || at > length {
				t.Fatalf("%d of %d units are reached at %v, after %v, of %v", s, total, at, last, length)
			}
			if s > 0 && (s < p.Before(at) || s >= p.Before(at+1)) {
				t.Fatalf("%d units are reached at %d ns; before it %d, before the next %d", s, at, p.Before(at), p.Before(at+1))
			}
			last = at
		}
		if !(p.RateMax() <= RateMax) || p.Rate(length/2) < 0 {
			t.Fatalf("rates %v and %v", p.RateMax(), p.Rate(length/2))
		}
		p.Peaks(length)
	})
}
