package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"weir/advisor/series"
)

// answerMax bounds an answer, in bytes: a point takes about 40.
const answerMax = 4 << 20

// answer is the JSON of the API:
// https://prometheus.io/docs/prometheus/latest/querying/api/
type answer struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
	Data      struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Values [][2]any `json:"values"`
		} `json:"result"`
	} `json:"data"`
}

// ask sends one query and returns its points, as rows without an interval.
func (s Source) ask(ctx context.Context, p piece) ([]series.Row, error) {
	question := url.Values{
		"query": {s.expression(p.step)},
		// The first step ends one after from.
		"start": {unix(p.from.Add(p.step))}, "end": {unix(p.to)},
		"step": {strconv.Itoa(int(p.step.Seconds()))},
	}
	address := s.URL.JoinPath("api/v1/query_range")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), strings.NewReader(question.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // it repeats the address, which the caller names
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", questionTimeout)
		}
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMax+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > answerMax {
		return nil, fmt.Errorf("the answer is larger than %d bytes; is the query one series?", answerMax)
	}
	return read(res, body)
}

// read returns the points of an answer.
func read(res *http.Response, body []byte) ([]series.Row, error) {
	var a answer
	err := json.Unmarshal(body, &a)
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case err == nil && a.Status == "error":
		return nil, fmt.Errorf("the server says %s: %s", a.ErrorType, oneLine(a.Error))
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server says %s", res.Status)
	case err != nil:
		return nil, fmt.Errorf("the answer (%s) is not that of a Prometheus API: %w", kind, err)
	case a.Status != "success" || a.Data.ResultType != "matrix":
		return nil, fmt.Errorf("the answer has status %q and type %q, not success and matrix", a.Status, a.Data.ResultType)
	case len(a.Data.Result) == 0:
		return nil, nil
	case len(a.Data.Result) > 1:
		return nil, fmt.Errorf("the query has %d series, must have one: sum(…) makes one of them", len(a.Data.Result))
	}
	return pointsOf(a.Data.Result[0].Values)
}

// pointsOf parses pairs of seconds and a number as text.
func pointsOf(values [][2]any) ([]series.Row, error) {
	points := make([]series.Row, 0, len(values))
	for i, pair := range values {
		seconds, ok1 := pair[0].(float64)
		text, ok2 := pair[1].(string)
		rate, err := strconv.ParseFloat(text, 64) // accepts NaN and +Inf as well
		if !ok1 || !ok2 || err != nil {
			return nil, fmt.Errorf("point %d of the answer is %v, not seconds and a number in quotes", i, pair)
		}
		whole, part := math.Modf(seconds)
		if math.Abs(whole) > 1e11 {
			return nil, fmt.Errorf("point %d of the answer is at %g seconds", i, seconds)
		}
		points = append(points, series.Row{At: time.Unix(int64(whole), int64(part*1e9)), Rate: rate, Coverage: 1})
	}
	return points, nil
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// oneLine shortens a message of the server for the log.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}
