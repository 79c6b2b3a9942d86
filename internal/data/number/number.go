// Package number formats numbers for people.
package number

import "strconv"

// Thousands formats a count with commas: 1,234,567.
func Thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rate formats a rate: whole from 100 on, with three digits below.
func Rate(v float64) string {
	if v >= 100 {
		return Thousands(uint64(v + 0.5))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Decimal formats a number with as many digits as it needs, and without an exponent.
func Decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Percent formats a share in percent: whole from 10 % on, with one decimal below.
func Percent(share float64) string {
	decimals := 0
	if share > 0 && share < 0.0995 {
		decimals = 1
	}
	return strconv.FormatFloat(100*share, 'f', decimals, 64) + " %"
}

// Duration formats seconds with three digits and a unit: "0", "85.0 µs", "1.25 ms", "30.1 s".
func Duration(s float64) string {
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
