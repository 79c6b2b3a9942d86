package serve

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/advisor/policy"
	"weir/advisor/series"
	"weir/internal/service"
	"weir/internal/strictjson"
)

const (
	// bodyMax bounds a snapshot, in bytes.
	bodyMax = 64 << 10
	// postsMax bounds the snapshots that are dealt with at a time; beyond: 503.
	postsMax = 4096

	forecastStep    = time.Minute
	forecastMax     = time.Hour
	forecastDefault = 10 * time.Minute

	historyDefault = 24 * time.Hour
	historyRows    = 10_000 // at most, in an answer
	historyMax     = 400 * 24 * time.Hour
	resolutionMin  = time.Minute
)

// register adds the advisor's endpoints to own:
//
//	POST /v1/limit-config   a snapshot → the recommended limit
//	GET  /v1/forecast       ?horizon=600 (seconds, up to 3600)
//	GET  /v1/history        ?span=86400&resolution=300 (seconds; resolution=raw)
//	GET  /v1/state          what is believed
//	GET  /                  a page for people
func (s *Server) register(own *service.Endpoints) {
	own.HandleFunc("POST /v1/limit-config", s.servePost)
	own.HandleFunc("GET /v1/forecast", s.serveForecast)
	own.HandleFunc("GET /v1/history", s.serveHistory)
	own.HandleFunc("GET /v1/state", s.serveState)
	own.HandleFunc("GET /{$}", s.servePage)
}

// An advised is the JSON answer to a snapshot.
type advised struct {
	Algorithm string  `json:"algorithm"`
	Limit     float64 `json:"limit,omitempty"`
	Window    float64 `json:"window,omitempty"`
	Capacity  float64 `json:"capacity,omitempty"`
	FillRate  float64 `json:"fillRate,omitempty"`
	Burst     float64 `json:"burst,omitempty"`

	Predicted  float64    `json:"predictedRps"`
	ValidFor   float64    `json:"validFor"`
	Reason     string     `json:"reason"` // the codes, a colon and the sentence
	Codes      []string   `json:"codes"`
	Confidence float64    `json:"confidence"`
	Forecast   *predicted `json:"forecast"`
}

// A predicted is the JSON of a forecast. T is seconds after At.
type predicted struct {
	At     *time.Time       `json:"at"`
	Step   float64          `json:"step"`
	Points []predictedPoint `json:"points"`
}

type predictedPoint struct {
	T   float64 `json:"t"`
	Q05 float64 `json:"q05"`
	Q50 float64 `json:"q50"`
	Q80 float64 `json:"q80"`
	Q95 float64 `json:"q95"`
	Q99 float64 `json:"q99"`
}

func newPredicted(at time.Time, step time.Duration, points []policy.Point) *predicted {
	p := &predicted{Step: step.Seconds(), Points: make([]predictedPoint, len(points))}
	if !at.IsZero() {
		at = at.UTC()
		p.At = &at
	}
	for i, q := range points {
		p.Points[i] = predictedPoint{float64(i+1) * p.Step, q.Q05, q.Q50, q.Q80, q.Q95, q.Q99}
	}
	return p
}

// JSON is the answer to a snapshot that was not refused.
func (r *reply) JSON() advised {
	l := r.limit
	return advised{
		Algorithm: l.Algorithm, Limit: l.Limit, Window: l.Window, Capacity: l.Capacity, FillRate: l.FillRate, Burst: l.Burst,
		Predicted: r.advice.PredictedRPS, ValidFor: r.advice.ValidFor.Seconds(),
		Reason: strings.Join(r.advice.Codes, ", ") + ": " + r.advice.Reason, Codes: r.advice.Codes,
		Confidence: r.advice.Confidence, Forecast: newPredicted(r.at, answerStep, r.points),
	}
}

var (
	errBusy   = errors.New("too many snapshots at a time")
	errLarge  = fmt.Errorf("the body is larger than %d KiB", bodyMax>>10)
	errCut    = errors.New("the body ended early")
	errFormat = errors.New("the body must be application/json")
)

// servePost answers a snapshot.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.shed.Inc()
		w.Header().Set("Retry-After", "1")
		service.WriteError(w, http.StatusServiceUnavailable, errBusy)
		return
	}
	body, status, err := readBody(w, r)
	var snap snapshot
	if err == nil {
		snap, err = readSnapshot(body)
		status = http.StatusBadRequest
	}
	if err != nil {
		s.results[resultInvalid].Inc()
		s.voice.refuse(resultInvalid, err.Error())
		service.WriteError(w, status, err)
		return
	}
	answer := s.core.post(&snap)
	s.results[answer.result].Inc()
	s.speak(&snap, &answer)
	switch answer.result {
	case resultOld:
		service.WriteError(w, http.StatusBadRequest, &strictjson.Error{Path: "timestamp", Message: oldMessage(&snap, &answer)})
	case resultFull:
		service.WriteError(w, http.StatusServiceUnavailable, answer.err)
	default:
		service.WriteJSON(w, http.StatusOK, answer.JSON())
	}
	s.posts.Observe(time.Since(start))
}

// oldMessage says how old an old snapshot is.
func oldMessage(s *snapshot, r *reply) string {
	return fmt.Sprintf("%v: it is %s, the newest %s", r.err, s.at.UTC().Format(time.RFC3339), r.newest.UTC().Format(time.RFC3339))
}

// speak tells the log what is worth it.
func (s *Server) speak(snap *snapshot, r *reply) {
	switch {
	case r.changed != nil:
		s.voice.changed(r.changed)
	case r.result == resultOld:
		s.voice.refuse(resultOld, oldMessage(snap, r))
	case r.result == resultFull:
		s.voice.refuse(resultFull, r.err.Error())
	case r.result == resultFailed:
		s.voice.fail(r.stack)
	case r.result == resultDoubtful:
		s.voice.refuse(r.result, fmt.Sprintf("observedRps %g instance %q", snap.observed, snap.instance))
	case r.result == resultBehind || r.result == resultAhead:
		s.voice.refuse(r.result, "timestamp "+snap.at.UTC().Format(time.RFC3339)+" instance "+strconv.Quote(snap.instance))
	}
}

// readBody reads the body of a snapshot; with an error comes the status.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		// What curl says of its own accord is let pass.
		kind, _, _ = mime.ParseMediaType(kind)
		if kind != "application/json" && !strings.HasSuffix(kind, "+json") && kind != "application/x-www-form-urlencoded" {
			return nil, http.StatusUnsupportedMediaType, errFormat
		}
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge, errLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest, errCut
	}
	return body, http.StatusOK, nil
}

// serveForecast answers the forecast for the next minutes.
func (s *Server) serveForecast(w http.ResponseWriter, r *http.Request) {
	ahead, err := secondsOf(r, "horizon", forecastDefault, forecastStep, forecastMax)
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	s.core.mu.Lock()
	at := s.core.now.forecastAt()
	outlook := s.core.now.future.Outlook(ahead, forecastStep)
	s.core.mu.Unlock()
	points := make([]policy.Point, len(outlook))
	for i, p := range outlook {
		points[i] = policy.Point{Q05: p.Q05, Q50: p.Q50, Q80: p.Q80, Q95: p.Q95, Q99: p.Q99}
	}
	service.WriteJSON(w, http.StatusOK, newPredicted(at, forecastStep, points))
}

// A past is the JSON of the history. Gaps are left out.
type past struct {
	From       *time.Time `json:"from"`
	To         *time.Time `json:"to"`
	Resolution float64    `json:"resolution"` // seconds; 0: as they came
	Rows       []pastRow  `json:"rows"`
}

// A pastRow is the mean rate over the interval that ended at At.
type pastRow struct {
	At       time.Time `json:"at"`
	Rps      float64   `json:"rps"`
	Coverage float64   `json:"coverage"` // share of the interval that is known
}

// serveHistory answers the rates of the past.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	span, err := secondsOf(r, "span", historyDefault, time.Minute, historyMax)
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	raw := r.URL.Query().Get("resolution") == "raw"
	var step time.Duration
	if !raw {
		if step, err = secondsOf(r, "resolution", resolutionFor(span), resolutionMin, historyMax); err != nil {
			service.WriteError(w, http.StatusBadRequest, err)
			return
		}
		if n := span / step; n > historyRows {
			err := &strictjson.Error{Path: "resolution", Message: fmt.Sprintf("gives %d rows, at most %d are answered: a longer one or a shorter span", n, historyRows)}
			service.WriteError(w, http.StatusBadRequest, err)
			return
		}
	}
	rows, from, to, err := s.core.past(span, step)
	if err != nil {
		service.WriteError(w, http.StatusBadRequest, err)
		return
	}
	p := past{Resolution: step.Seconds(), Rows: make([]pastRow, 0, len(rows))}
	if !to.IsZero() {
		p.From, p.To = &from, &to
	}
	for _, row := range rows[max(0, len(rows)-historyRows):] {
		if row.Coverage > 0 {
			p.Rows = append(p.Rows, pastRow{row.At.UTC(), row.Rate, row.Coverage})
		}
	}
	service.WriteJSON(w, http.StatusOK, p)
}

// resolutionFor is the resolution at which a span has about 300 rows, or more.
func resolutionFor(span time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if span/step <= 600 {
			return step
		}
	}
	return time.Hour
}

// past are the rows of a span up to the newest; a step of 0: as they came.
func (c *core) past(span, step time.Duration) (rows []series.Row, from, to time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.now.future.History()
	newest, ok := h.Newest()
	if !ok {
		return nil, from, to, nil
	}
	to = newest.UTC()
	from = to.Add(-span)
	if step == 0 {
		return h.Raw(from, to), from, to, nil
	}
	end := to.Truncate(step)
	if end.Before(to) {
		end = end.Add(step) // the slot that is not over
	}
	rows, err = h.View(from, end, step)
	return rows, from, to, err
}

// secondsOf reads a parameter of the query, in seconds.
func secondsOf(r *http.Request, name string, otherwise, min, max time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= min.Seconds() && v <= max.Seconds()) {
		return 0, &strictjson.Error{Path: name, Message: fmt.Sprintf("must be from %v to %v seconds, is %q", min.Seconds(), max.Seconds(), text)}
	}
	return seconds(v), nil
}
