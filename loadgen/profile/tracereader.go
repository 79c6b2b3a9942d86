package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	rowsMax     = 4 << 20                    // rows of a trace, and different seconds of a log
	recordedMax = 100 * 366 * 24 * time.Hour // how long a record is; it may be played faster
)

// The names of columns, in lower case.
var (
	timeColumns = []string{"timestamp", "time", "datetime", "date", "ts", "t", "ds", "period", "minute", "second",
		"seconds", "second_of_day", "elapsed"}
	rateColumns  = []string{"rps", "rate", "qps", "requests_per_second"}
	countColumns = []string{"count", "requests", "request_count", "requestcount", "hits", "value", "y"}
)

// timeLayouts are the formats of a time, in addition to seconds as a number. A fraction
// of a second may follow the seconds; without a zone it is UTC.
var timeLayouts = []string{
	time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04",
	"2006-01-02",
}

const accessLogTime = "02/Jan/2006:15:04:05 -0700"

// ReadTrace reads recorded traffic, in one of two forms.
//
// The access log of Apache or nginx, common or combined: every line is a
// request, at the time between brackets. Logs are written when requests end,
// so the times need not be in order.
//
// CSV, with commas, semicolons or tabs; lines that begin with # and empty ones
// are skipped. The columns are found by the names in the first line:
//
//   - the time: timestamp, time, datetime, date, ts, t, ds, period, minute,
//     second, seconds, second_of_day or elapsed. It is a number of seconds or
//     a time like 2026-01-19 16:30:00 or 2026-01-19T16:30:00Z, and grows from
//     line to line.
//   - rates: rps, rate, qps or requests_per_second; or else counts: count,
//     requests, request_count, hits, value or y. A count is that of the step up
//     to the next line.
//   - With a time and none of these, every line is one request; in any order.
//   - With rates or counts and no time, every line is one second.
//   - Other columns are ignored. It is an error if one has numbers at even times
//     beside nothing but times, or times beside nothing but rates or counts.
//
// Without names: one column of numbers is a rate per second, line by line; one
// column of times is a request per line; of two columns the first is the time
// and the second the rate.
//
// The error names the line that is broken.
func ReadTrace(r io.Reader) (*Trace, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\ufeff")) {
		_, _ = in.Discard(3)
	}
	first, err := peekLine(in)
	if err != nil {
		return nil, err
	}
	if _, ok := accessTime(first); ok {
		return readAccessLog(&boundedLines{r: in})
	}
	return readCSV(&boundedLines{r: in, quotes: true}, separator(first))
}

// peekLine returns the first line with content, or its start, without consuming it.
func peekLine(in *bufio.Reader) (string, error) {
	b, err := in.Peek(4096)
	if len(b) == 0 {
		if errors.Is(err, io.EOF) {
			return "", errors.New("it is empty")
		}
		return "", fmt.Errorf("line 1: %w", err)
	}
	for line := range bytes.Lines(b) {
		if len(bytes.TrimSpace(line)) > 0 && line[0] != '#' {
			return string(bytes.TrimSuffix(line, []byte("\n"))), nil
		}
	}
	return "", errors.New("it begins with nothing but comments and empty lines")
}

func separator(line string) rune {
	for _, c := range ",;\t" {
		if strings.ContainsRune(line, c) {
			return c
		}
	}
	return ','
}

func accessTime(line string) (time.Time, bool) {
	_, rest, found := strings.Cut(line, " [")
	if !found || len(rest) < len(accessLogTime)+3 || !strings.HasPrefix(rest[len(accessLogTime):], `] "`) {
		return time.Time{}, false
	}
	at, err := time.Parse(accessLogTime, rest[:len(accessLogTime)])
	return at, err == nil
}

func readAccessLog(in io.Reader) (*Trace, error) {
	requests := make(map[int64]int)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineBytesMax+2) // a line, its end, and one byte that is never used
	n := 0
	for lines.Scan() {
		n++
		text := lines.Text()
		if strings.TrimSpace(text) == "" || text[0] == '#' {
			continue
		}
		at, ok := accessTime(text)
		if !ok {
			return nil, fmt.Errorf(`line %d: is not a line of an access log: it must have a time like [%s] followed by a request in quotes`, n, accessLogTime)
		}
		requests[at.Unix()]++
		if len(requests) > rowsMax {
			return nil, fmt.Errorf("line %d: there are more than %d different seconds", n, rowsMax)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return bySecond(requests)
}

// bySecond returns the trace of requests that are counted by the second, in Unix time.
func bySecond(requests map[int64]int) (*Trace, error) {
	t := &Trace{kind: kindSeconds, rows: make([]row, 0, len(requests))}
	seconds := slices.Sorted(maps.Keys(requests))
	if length := seconds[len(seconds)-1] - seconds[0]; length > int64(recordedMax/time.Second) {
		return nil, errors.New("it lasts longer than a hundred years")
	}
	for _, s := range seconds {
		t.rows = append(t.rows, row{at: time.Duration(s-seconds[0]) * time.Second, value: float64(requests[s])})
	}
	return t, nil
}

// A table reads the rows of a CSV file.
type table struct {
	trace       Trace
	time, value int       // columns; -1: missing
	first       time.Time // time of the first row
	whole       bool      // all times so far are whole seconds
	unknown     []unknown // the columns that are ignored
}

func readCSV(in io.Reader, comma rune) (*Trace, error) {
	r := csv.NewReader(in)
	r.Comma, r.Comment, r.ReuseRecord, r.TrimLeadingSpace = comma, '#', true, comma != '\t'
	var t *table
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := r.FieldPos(0)
		if t == nil {
			var header bool
			if t, header, err = tableOf(fields); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			if header {
				continue
			}
		}
		if err := t.add(fields, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if t == nil || len(t.trace.rows) == 0 {
		return nil, errors.New("it has no rows")
	}
	return t.finish()
}

func csvError(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("line %d: %w", e.Line, e.Err)
	}
	return err
}

// tableOf finds the columns; header says whether fields are their names.
func tableOf(fields []string) (t *table, header bool, err error) {
	t = &table{time: -1, value: -1, whole: true}
	for _, f := range fields {
		if _, ok := parseTime(f); !ok {
			header = true
		}
	}
	if !header {
		_, number := parseNumber(fields[0])
		switch {
		case len(fields) == 1 && number:
			t.value = 0
		case len(fields) == 1:
			t.time, t.trace.kind = 0, kindArrivals
		case len(fields) == 2:
			t.time, t.value = 0, 1
		default:
			return nil, false, fmt.Errorf("there are %d columns without names: the first line must name them", len(fields))
		}
		return t, false, nil
	}
	find := func(names []string) int {
		return slices.IndexFunc(fields,
			func(f string) bool { return slices.Contains(names, strings.ToLower(strings.TrimSpace(f))) })
	}
	t.time, t.value = find(timeColumns), find(rateColumns)
	if t.value < 0 {
		t.value, t.trace.kind = find(countColumns), kindCounts
	}
	switch {
	case t.value >= 0:
	case t.time >= 0:
		t.trace.kind = kindArrivals
	default:
		return nil, false, fmt.Errorf("no known column: a time (%s), a rate (%s) or a count (%s) is required",
			strings.Join(timeColumns, ", "), strings.Join(rateColumns, ", "), strings.Join(countColumns, ", "))
	}
	t.unknown = t.unknownColumns(fields)
	return t, true, nil
}

func (t *table) add(fields []string, line int) error {
	rows := t.trace.rows
	if len(rows) == rowsMax {
		return fmt.Errorf("there are more than %d lines", rowsMax)
	}
	r := row{at: time.Duration(len(rows)) * time.Second, line: line}
	if t.time >= 0 {
		at, ok := parseTime(fields[t.time])
		if !ok {
			return errors.New("the time must be a number of seconds or like 2026-01-19 16:30:00")
		}
		if len(rows) == 0 {
			t.first = at
		}
		r.at = at.Sub(t.first)
		t.whole = t.whole && at.Nanosecond() == 0
		if r.at > recordedMax || r.at < -recordedMax {
			return errors.New("the time is more than a hundred years from that of the first line")
		}
		if t.trace.kind != kindArrivals && len(rows) > 0 && r.at <= rows[len(rows)-1].at {
			return errors.New("the time must be after that of the line before")
		}
	}
	if t.value >= 0 {
		value, ok := parseNumber(fields[t.value])
		if !ok || value < 0 || value > 1e12 {
			return errors.New("the rate or count must be a number from 0 to 1e12")
		}
		r.value = value
	}
	t.look(fields)
	t.trace.rows = append(rows, r)
	return nil
}

func (t *table) finish() (*Trace, error) {
	if err := t.misread(); err != nil {
		return nil, err
	}
	if t.trace.kind != kindArrivals {
		return &t.trace, nil
	}
	rows := t.trace.rows
	if t.whole {
		requests := make(map[int64]int)
		for _, r := range rows {
			requests[t.first.Add(r.at).Unix()]++
		}
		return bySecond(requests)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	// The record begins with the second of its first request.
	early := rows[0].at
	early -= time.Duration(t.first.Add(early).Nanosecond())
	for i := range rows {
		rows[i].at -= early
	}
	return &t.trace, nil
}

// parseTime reads a time: seconds, or one of timeLayouts.
func parseTime(text string) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if v, ok := parseNumber(text); ok {
		if math.Abs(v) > 1e11 {
			return time.Time{}, false
		}
		whole, part := math.Modf(v)
		return time.Unix(int64(whole), int64(math.Round(part*nanos))).UTC(), true
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// parseNumber reads a finite number.
func parseNumber(text string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}
