package serve

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/advisor/core"
	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
	"weir/internal/data/strict"
	"weir/internal/program/service"
)

const (
	// bodyMax bounds a snapshot, in bytes.
	bodyMax = 64 << 10
	// postsMax bounds the snapshots in progress at a time; beyond: 503.
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
//	GET  /v1/state          the advisor's state
//	GET  /                  a page for people
func (s *Server) register(own *service.Endpoints) {
	own.HandleFunc("POST /v1/limit-config", s.servePost)
	own.HandleJSON("GET /v1/forecast", s.serveForecast)
	own.HandleJSON("GET /v1/history", s.serveHistory)
	own.HandleJSON("GET /v1/state", s.serveState)
	own.HandleFunc("GET /{$}", s.servePage)
}

// An advised is the JSON answer to a snapshot.
type advised struct {
	policy.Limit

	Predicted  float64    `json:"predictedRps"`
	ValidFor   float64    `json:"validFor"`
	Reason     string     `json:"reason"` // the codes, a colon and the sentence
	Codes      []string   `json:"codes"`
	Confidence float64    `json:"confidence"`
	Gate       *gate      `json:"gate,omitempty"`
	Forecast   *predicted `json:"forecast"`
}

// A gate is the JSON of the bounds of a gate's limit.
type gate struct {
	Max float64 `json:"max"` // requests in flight to one target
}

// A predicted is the JSON of a forecast. T is in seconds after At.
type predicted struct {
	At     *time.Time       `json:"at"`
	Step   float64          `json:"step"`
	Points []predictedPoint `json:"points"`
}

type predictedPoint struct {
	T float64 `json:"t"`
	forecast.Point
}

func newPredicted(at time.Time, step time.Duration, points []forecast.Point) *predicted {
	p := &predicted{At: instant(at), Step: step.Seconds(), Points: make([]predictedPoint, len(points))}
	for i, q := range points {
		p.Points[i] = predictedPoint{float64(i+1) * p.Step, q}
	}
	return p
}

// adviceJSON returns the answer to a snapshot that was not refused.
func adviceJSON(r *core.Response) advised {
	var g *gate
	if r.Recommendation.GateMax > 0 {
		g = &gate{r.Recommendation.GateMax}
	}
	return advised{
		Limit: r.Limit, Predicted: r.Recommendation.PredictedRPS, ValidFor: r.Recommendation.ValidFor.Seconds(),
		Reason: strings.Join(r.Recommendation.Codes, ", ") + ": " + r.Recommendation.Reason, Codes: r.Recommendation.Codes,
		Confidence: r.Recommendation.Confidence, Gate: g, Forecast: newPredicted(r.At, core.ForecastStep, r.Points),
	}
}

// servePost answers a snapshot.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.shed.Inc()
		w.Header().Set("Retry-After", "1")
		service.WriteError(w, http.StatusServiceUnavailable, errors.New("too many concurrent snapshots"))
		return
	}
	body, err := readBody(w, r)
	var snap core.Snapshot
	if err == nil {
		snap, err = readSnapshot(body)
	}
	if err != nil {
		s.results[core.Invalid].Inc()
		s.resultLog.refuse(core.Invalid, err.Error())
		service.WriteError(w, service.StatusOf(err), err)
		return
	}
	answer, stack := s.locked.post(&snap)
	s.results[answer.Result].Inc()
	if answer.Result == core.Old || answer.Result == core.Ahead {
		answer.Err = strict.Fault{Path: "timestamp", Message: fmt.Sprintf("%v: it is %s, the newest %s",
			answer.Err, snap.At.Format(time.RFC3339), answer.Newest.UTC().Format(time.RFC3339))}
	}
	s.speak(&snap, &answer, stack)
	switch {
	case answer.Result == core.Full:
		service.WriteError(w, http.StatusServiceUnavailable, answer.Err)
	case answer.Err != nil:
		service.WriteError(w, http.StatusBadRequest, answer.Err)
	default:
		service.WriteJSON(w, http.StatusOK, adviceJSON(&answer))
	}
	s.posts.Observe(time.Since(start))
}

// speak logs the notable results of a snapshot.
func (s *Server) speak(snap *core.Snapshot, r *core.Response, stack string) {
	switch {
	case r.Result == core.Failed:
		s.resultLog.refuse(r.Result, stack)
	case r.Result == core.Doubtful:
		s.resultLog.refuse(r.Result, fmt.Sprintf("observedRps %g instance %q", snap.Observed, snap.Instance))
	case r.Err != nil:
		s.resultLog.refuse(r.Result, fmt.Sprintf("%v instance %q", r.Err, snap.Instance))
	}
	if r.Restarted && s.saver == nil {
		s.log.Warn("The snapshots' times do not match what is known; starting from scratch, and what was known is lost",
			"newest", snap.At, "before", r.Newest)
	}
	if r.Changed != nil {
		s.resultLog.changed(r.Changed)
	}
	s.resultLog.stores(r.Shares)
}

// readBody reads the body of a snapshot. The error has a status.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		// What curl sends by default is accepted.
		kind, _, _ = mime.ParseMediaType(kind)
		if kind != "application/json" && !strings.HasSuffix(kind, "+json") && kind != "application/x-www-form-urlencoded" {
			return nil, service.WithStatus(http.StatusUnsupportedMediaType, errors.New("the body must be application/json"))
		}
	}
	return service.ReadBodyUpTo(w, r, bodyMax, "64 KiB")
}

// serveForecast answers the forecast for the next minutes.
func (s *Server) serveForecast(_ http.ResponseWriter, r *http.Request) (any, error) {
	ahead, err := secondsOf(r, "horizon", within{forecastDefault, forecastStep, forecastMax})
	if err != nil {
		return nil, err
	}
	var at time.Time
	var points []forecast.Point
	s.locked.with(func(c *core.Core) { at, points = c.Forecast(ahead, forecastStep) })
	return newPredicted(at, forecastStep, points), nil
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

// serveHistory answers past rates.
func (s *Server) serveHistory(_ http.ResponseWriter, r *http.Request) (any, error) {
	span, err := secondsOf(r, "span", within{historyDefault, time.Minute, historyMax})
	if err != nil {
		return nil, err
	}
	raw := r.URL.Query().Get("resolution") == "raw"
	var step time.Duration
	if !raw {
		if step, err = secondsOf(r, "resolution", within{resolutionFor(span), resolutionMin, historyMax}); err != nil {
			return nil, err
		}
		if n := span / step; n > historyRows {
			return nil, strict.Fault{Path: "resolution",
				Message: fmt.Sprintf("gives %d rows, at most %d are allowed: use a longer one or a shorter span", n, historyRows)}
		}
	}
	var rows []series.Row
	var from, to time.Time
	s.locked.with(func(c *core.Core) { rows, from, to = c.Past(span, step) })
	p := past{From: instant(from), To: instant(to), Resolution: step.Seconds(), Rows: make([]pastRow, 0, len(rows))}
	for _, row := range rows[max(0, len(rows)-historyRows):] {
		if row.Coverage > 0 {
			p.Rows = append(p.Rows, pastRow{row.At.UTC(), row.Rate, row.Coverage})
		}
	}
	return p, nil
}

// resolutionFor returns the resolution at which a span has at least about 300 rows.
func resolutionFor(span time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if span/step <= 600 {
			return step
		}
	}
	return time.Hour
}

// within has the bounds of a parameter and its default.
type within struct{ otherwise, min, max time.Duration }

// secondsOf parses a parameter of the query, in seconds.
func secondsOf(r *http.Request, name string, w within) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return w.otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= w.min.Seconds() && v <= w.max.Seconds()) {
		return 0, strict.Fault{Path: name, Message: fmt.Sprintf("must be from %v to %v seconds, is %q", w.min.Seconds(),
			w.max.Seconds(), text)}
	}
	return seconds(v), nil
}
