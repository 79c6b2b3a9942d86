package backtest

import (
	"fmt"

	json "github.com/goccy/go-json"
)

// A Reference has the forecasts of other methods at some origins of a series.
type Reference struct {
	Series   string         `json:"series"`
	Step     int            `json:"step"`     // seconds
	Horizons []int          `json:"horizons"` // seconds
	Rows     []ReferenceRow `json:"rows"`
}

// A ReferenceRow is one origin. The forecasts were made from the slots up to Index.
type ReferenceRow struct {
	Origin   int64                `json:"origin"`
	Index    int                  `json:"index"`
	Truth    []float64            `json:"truth"`
	Forecast map[string][]float64 `json:"forecast"`
}

// ParseReference parses a file of reference forecasts.
func ParseReference(text []byte) (*Reference, error) {
	r := &Reference{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read reference forecasts: %w", err)
	}
	for i, row := range r.Rows {
		if len(row.Truth) != len(r.Horizons) {
			return nil, fmt.Errorf("read reference forecasts: rows[%d].truth has %d values, must have %d", i, len(row.Truth),
				len(r.Horizons))
		}
		for name, f := range row.Forecast {
			if len(f) != len(r.Horizons) {
				return nil, fmt.Errorf("read reference forecasts: rows[%d].forecast.%s has %d values, must have %d", i, name,
					len(f), len(r.Horizons))
			}
		}
	}
	return r, nil
}
