package serve

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/advisor/core"
	"weir/advisor/forecast"
	"weir/advisor/policy"
	"weir/advisor/series"
	"weir/internal/data/chart"
	"weir/internal/data/number"
	"weir/internal/program/service"
)

// pageText is the template of the page, with its style sheet and script.
//
//go:embed page.html
var pageText string

const (
	pageFresh    = time.Second // for which a drawn page is reused
	changesShown = 20          // recommendations in the table
	proxiesShown = 20          // proxies in the table
	expertsShown = 5           // experts that are shown separately

	hoursSpan = 4 * time.Hour
	daysSpan  = 14 * 24 * time.Hour
	limitSpan = 24 * time.Hour
)

// A page is the page as drawn last.
//
// Safe for concurrent use: mu lets one draw at a time.
type page struct {
	mu    sync.Mutex
	drawn time.Time
	body  []byte
}

func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	body, err := s.draw(time.Now())
	if err != nil {
		service.WriteError(w, http.StatusInternalServerError, err)
		return
	}
	service.WritePage(w, service.CSPLive, body)
}

// draw returns the page.
func (s *Server) draw(now time.Time) ([]byte, error) {
	s.page.mu.Lock()
	defer s.page.mu.Unlock()
	if age := now.Sub(s.page.drawn); s.page.body != nil && age >= 0 && age < pageFresh {
		return s.page.body, nil
	}
	body, err := drawPage(s.pageData())
	if err == nil {
		s.page.body, s.page.drawn = body, now
	}
	return body, err
}

// A pageData has the data of the page, copied from the core.
type pageData struct {
	core.View
	Zone         *time.Location
	minutes      []series.Row // the last hours
	days         []series.Row
	ahead        []forecast.Point  // by the minute for an hour
	track, daily []core.SlotValues // the last hours; the last days
}

// pageData copies the data of the page.
func (s *Server) pageData() *pageData {
	l := &pageData{Zone: s.cfg.Zone}
	s.locked.with(func(c *core.Core) {
		l.View = c.View()
		_, l.ahead = c.Forecast(forecastMax, forecastStep)
		step := 5 * time.Minute
		if l.Age > 4*24*time.Hour {
			step = 15 * time.Minute
		}
		l.minutes, l.days = c.Recent(hoursSpan, time.Minute), c.Recent(daysSpan, step)
		l.track, l.daily = c.Timeline(limitSpan, daysSpan)
	})
	return l
}

// A sheet is the input of the template.
type sheet struct {
	*pageData
	State, Tone string // of the target, and as a colour
	Figures     []chart.Stat
	Plots       []chart.Chart
	More        int // number of proxies that are not shown
}

// drawPage draws the page.
func drawPage(l *pageData) ([]byte, error) {
	sh := sheet{pageData: l, Figures: figuresOf(l), Plots: l.plots(), More: max(0, len(l.Proxies)-proxiesShown)}
	sh.State, sh.Tone = guardWord(&l.PolicyState)
	l.Changes, l.Proxies = l.Changes[:min(len(l.Changes), changesShown)], l.Proxies[:min(len(l.Proxies), proxiesShown)]
	return chart.RenderPage(pageText, template.FuncMap{"age": age, "perSecond": perSecond,
		"parameters": parameters, "shares": sharesOf, "join": strings.Join,
		"moment": func(at time.Time, form string) string { return at.In(l.Zone).Format(form) }}, sh)
}

// guardWord returns the state of the target as a word and a colour.
func guardWord(s *policy.State) (word, tone string) {
	switch {
	case s.Guard.Fault.Active:
		return "target fails, not from load", "red"
	case s.Count == 0:
		return "no snapshot yet", "grey"
	}
	switch s.Guard.State {
	case "bad":
		return "target overloaded", "red"
	case "warn":
		return "target becomes slow", "amber"
	}
	return "target healthy", "green"
}

// figuresOf returns the highlighted numbers.
func figuresOf(l *pageData) []chart.Stat {
	rate := func(v float64) string { return number.Rate(v) + "/s" }
	a, c := &l.Recommendation, l.PolicyState.Capacity
	refused := number.Percent(a.Sum.RejectedShare) + " refused"
	figures := []chart.Stat{{"Arriving", rate(a.Sum.Observed), refused, "blue"}}
	if !a.Given {
		return figures
	}
	capacity := chart.Stat{"Capacity", "unknown", "not enough traffic yet", "green"}
	if c.Q50 > 0 {
		capacity.Value, capacity.Note = rate(c.Q50), "probably "+number.Rate(c.Q20)+" to "+rate(c.Q80)
	}
	p95 := "–"
	if a.Sum.P95 > 0 {
		p95 = number.Duration(a.Sum.P95.Seconds())
	}
	return append(figures, []chart.Stat{
		{"Predicted", rate(a.Rec.PredictedRPS), "at most " + rate(a.Rec.Predicted95) + " (95 %), within " +
			age(a.Rec.ValidFor), "violet"},
		{"Limit in force", perSecond(a.Sum.Limit), a.Sum.Limit.Algorithm + parameters(a.Sum.Limit), "amber"},
		{"Recommended", perSecond(a.Rec.Limit), a.Rec.Algorithm + parameters(a.Rec.Limit), "red"},
		capacity,
		{"Confidence", number.Percent(c.Confidence), "in the capacity", ""},
		{"Latency p95", p95, number.Percent(a.Sum.Errors) + " errors", ""},
	}...)
}

// A share is the part of an expert in a forecast, in percent.
type share struct {
	Name  string
	Share float64
	Tone  string
}

// sharesOf returns the experts with the largest shares, and the others as one.
func sharesOf(m forecast.Mixture) (all []share) {
	tones := [...]string{"blue", "green", "violet", "amber", "red"}
	rest := 1.0
	for i, w := range m.Weights {
		if i == expertsShown || w.Share < 0.02 {
			break
		}
		all = append(all, share{strings.ReplaceAll(w.Expert, "_", " "), 100 * w.Share, tones[i]})
		rest -= w.Share
	}
	if rest > 0.005 {
		all = append(all, share{"others", 100 * rest, "grey"})
	}
	return all
}

// age formats a duration in words.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute || d == time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
