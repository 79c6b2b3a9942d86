package record

import "strconv"

// Span writes seconds for people: three digits and a unit, "0", "85 µs",
// "1.25 ms", "30.1 s".
func Span(s float64) string {
	switch {
	case s <= 0:
		return "0"
	case s < 999.5e-6:
		return digits3(s*1e6) + " µs"
	case s < 0.9995:
		return digits3(s*1e3) + " ms"
	}
	return digits3(s) + " s"
}

func digits3(v float64) string {
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
