package adaptive

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-json"

	"weir/internal/data/strict"
	"weir/proxy/limit"
)

// A Recommendation is the part of the advisor's answer that the proxy uses.
type Recommendation struct {
	limit.Config
	PredictedRPS float64          `json:"predictedRps,omitempty"`
	ValidFor     float64          `json:"validFor,omitempty"` // seconds
	Confidence   float64          `json:"confidence,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	Gate         *GateLimitBounds `json:"gate,omitempty"`
}

// GateLimitBounds are bounds of the gates' limits.
type GateLimitBounds struct {
	Max int `json:"max"` // requests in flight to one target
}

const (
	predictedMax = 1e12
	validForMax  = 86400   // seconds
	gateMost     = 1 << 20 // of GateLimitBounds.Max, as the setting GATE_MAX
	textMax      = 300     // bytes of the advisor's texts that are kept
)

// readAnswer parses an answer. The limit is parsed as by POST /config/limits, and any
// fault of it is an error. Other parts that are invalid are left out.
func readAnswer(body []byte) (*Recommendation, error) {
	r := new(Recommendation)
	if err := strict.DecodeIgnoringUnknown(body, &r.Config); err != nil {
		return nil, err
	}
	var more struct {
		PredictedRPS json.RawMessage `json:"predictedRps"`
		ValidFor     json.RawMessage `json:"validFor"`
		Confidence   json.RawMessage `json:"confidence"`
		Reason       any             `json:"reason"`
		Gate         json.RawMessage `json:"gate"`
	}
	if json.Unmarshal(body, &more) != nil {
		return r, nil
	}
	if rps := readNumber(more.PredictedRPS); rps >= 0 && rps <= predictedMax {
		r.PredictedRPS = rps
	}
	if seconds := readNumber(more.ValidFor); seconds > 0 && seconds <= validForMax {
		r.ValidFor = seconds
	}
	if c := readNumber(more.Confidence); c >= 0 && c <= 1 {
		r.Confidence = c
	}
	var bounds struct {
		Max json.RawMessage `json:"max"`
	}
	if json.Unmarshal(more.Gate, &bounds) == nil {
		if most := readNumber(bounds.Max); most >= 1 && most <= gateMost {
			r.Gate = &GateLimitBounds{int(most)}
		}
	}
	r.Reason = clean(strings.Join(words(nil, more.Reason), ", "))
	return r, nil
}

// readNumber parses a JSON number. It returns NaN for anything else.
func readNumber(raw json.RawMessage) float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// words appends the strings in a value: codes, a sentence, or lists of them.
func words(list []string, value any) []string {
	switch v := value.(type) {
	case string:
		list = append(list, v)
	case []any:
		for _, one := range v {
			list = words(list, one)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = words(list, v[name])
		}
	}
	return list
}

// clean makes a text from another program safe for a log line: short and without control
// characters.
func clean(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), textMax)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}
