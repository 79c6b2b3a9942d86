package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weir/internal/program/service"
	"weir/proxy/limit/rails"
)

// Adaptive has the settings of following the advisor.
type Adaptive struct {
	Mode     string // false, true or shadow; with shadow no trial is further than Step from the limit in force
	URL      string // base URL without a slash at its end
	Token    string // sent to the advisor; empty: none
	Interval time.Duration
	Timeout  time.Duration
	Stale    int     // failed updates until a warning
	Scale    float64 // factor by which the snapshots' clock runs fast
	rails.Rails
}

// adaptivePauseMin is the shortest real time between two snapshots.
const adaptivePauseMin = 10 * time.Millisecond

func (a *Adaptive) register(s *service.Settings) {
	s.Add(service.SettingList{
		{Name: "ADAPTIVE_MODE", Default: "false", Value: service.StringEnum(&a.Mode, "false, true, shadow"),
			Help: "true: apply the advisor's recommendations; shadow: only log and count what would be applied"},
	})
	s.AddWithNoEffect(s.NoEffectWhen("ADAPTIVE_MODE", "false"), service.SettingList{
		{Name: "ADVISOR_URL", Default: "http://127.0.0.1:8084",
			Value: service.Func(&a.URL, "http://host:port or https://host:port, with or without a path", advisorURL),
			Help:  "base URL of the advisor"},
		{Name: "ADVISOR_TOKEN", Value: service.BearerToken(&a.Token),
			Help: "the advisor's ADMIN_TOKEN, sent with every request; empty: this program's ADMIN_TOKEN"},
		{Name: "ADAPTIVE_UPDATE_INTERVAL", Default: "30s", Value: service.Duration(&a.Interval, time.Second, time.Hour),
			Help: "interval between two snapshots for the advisor"},
		{Name: "ADAPTIVE_TIMEOUT", Default: "2s", Value: service.Duration(&a.Timeout, time.Millisecond, time.Minute),
			Help: "timeout of requests to the advisor"},
		{Name: "LIMIT_MIN_RPS", Default: "5", Value: service.Float(&a.Min, 0.001, 1e9),
			Help: "lowest sustained rate that the advisor may set, per second"},
		{Name: "LIMIT_MAX_RPS", Default: "100000", Value: service.Float(&a.Max, 0.001, 1e9), Help: "the highest"},
		{Name: "LIMIT_MAX_STEP", Default: "4", Value: service.Float(&a.Step, 1, 1e6),
			Help: "largest factor between the sustained rates before and after an update"},
		{Name: "ALGORITHM_MIN_DWELL", Default: "3m", Value: service.Duration(&a.Dwell, 0, timeMax),
			Help: "least time between two switches of the algorithm by the advisor"},
		{Name: "ADAPTIVE_STALE_AFTER", Default: "3", Value: service.Int(&a.Stale, 1, 1_000_000),
			Help: "failed updates in a row until a warning"},
		{Name: "ADAPTIVE_TIME_SCALE", Default: "1", Value: service.Float(&a.Scale, 1, 100_000),
			Help: "for experiments: factor by which the snapshots' clock and interval run faster"},
	})
}

func advisorURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return "", errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("does not begin with http:// or https://")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", errors.New("has more than host, port and path")
	case u.Port() != "" && !validPort(u.Port()):
		return "", errors.New("has a port that is not from 1 to 65535")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (a *Adaptive) complete(s *service.Settings) error {
	return errors.Join(
		s.FaultIf(a.Min > a.Max, "LIMIT_MIN_RPS", "is more than LIMIT_MAX_RPS, "+s.Text("LIMIT_MAX_RPS"), "at most that"),
		s.FaultIf(a.SnapshotInterval() < adaptivePauseMin, "ADAPTIVE_TIME_SCALE",
			fmt.Sprintf("makes an interval of %v as short as %v", a.Interval, a.SnapshotInterval()),
			fmt.Sprintf("a value that leaves at least %v", adaptivePauseMin)))
}

// SnapshotInterval returns the real time between two snapshots.
func (a *Adaptive) SnapshotInterval() time.Duration {
	return time.Duration(float64(a.Interval) / a.Scale)
}
