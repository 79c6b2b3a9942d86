package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weir/internal/data/number"
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
	s.Enum(&a.Mode, "ADAPTIVE_MODE", "false", []string{"false", "true", "shadow"},
		"true: apply the advisor's recommendations; shadow: only log and count what would be applied")
	s.Func("ADVISOR_URL", "http://127.0.0.1:8084", "base URL of the advisor",
		"http://host:port or https://host:port, with or without a path", a.setURL)
	s.Token(&a.Token, "ADVISOR_TOKEN",
		"the advisor's ADMIN_TOKEN, sent with every request; empty: this program's ADMIN_TOKEN")
	s.Duration(&a.Interval, "ADAPTIVE_UPDATE_INTERVAL", 30*time.Second, time.Second, time.Hour,
		"interval between two snapshots for the advisor")
	s.Duration(&a.Timeout, "ADAPTIVE_TIMEOUT", 2*time.Second, time.Millisecond, time.Minute,
		"timeout of requests to the advisor")
	s.Float(&a.Min, "LIMIT_MIN_RPS", 5, 0.001, 1e9, "lowest sustained rate that the advisor may set, per second")
	s.Float(&a.Max, "LIMIT_MAX_RPS", 100_000, 0.001, 1e9, "the highest")
	s.Float(&a.Step, "LIMIT_MAX_STEP", 4, 1, 1e6, "largest factor between the sustained rates before and after an update")
	s.Duration(&a.Dwell, "ALGORITHM_MIN_DWELL", 3*time.Minute, 0, timeMax,
		"least time between two switches of the algorithm by the advisor")
	s.Int(&a.Stale, "ADAPTIVE_STALE_AFTER", 3, 1, 1_000_000, "failed updates in a row until a warning")
	s.Float(&a.Scale, "ADAPTIVE_TIME_SCALE", 1, 1, 100_000,
		"for experiments: factor by which the snapshots' clock and interval run faster")
}

func (a *Adaptive) setURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("does not begin with http:// or https://")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("has more than host, port and path")
	case u.Port() != "" && !validPort(u.Port()):
		return errors.New("has a port that is not from 1 to 65535")
	}
	a.URL = strings.TrimRight(u.String(), "/")
	return nil
}

func (a *Adaptive) complete() (err error) {
	if a.Min > a.Max {
		err = &service.SettingError{Name: "LIMIT_MIN_RPS", Value: number.Decimal(a.Min),
			Problem: "is more than LIMIT_MAX_RPS, " + number.Decimal(a.Max),
			Allowed: "at most that"}
	}
	if pause := a.Pause(); pause < adaptivePauseMin {
		err = errors.Join(err, &service.SettingError{Name: "ADAPTIVE_TIME_SCALE", Value: number.Decimal(a.Scale),
			Problem: fmt.Sprintf("makes an interval of %v as short as %v", a.Interval, pause),
			Allowed: fmt.Sprintf("a value that leaves at least %v", adaptivePauseMin)})
	}
	return err
}

// Pause returns the real time between two snapshots.
func (a *Adaptive) Pause() time.Duration {
	return time.Duration(float64(a.Interval) / a.Scale)
}
