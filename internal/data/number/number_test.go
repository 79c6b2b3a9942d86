package number

import (
	"fmt"
	"testing"
)

func ExampleThousands() {
	fmt.Println(Thousands(999), Thousands(1000), Thousands(1234567))
	// Output: 999 1,000 1,234,567
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Rate(0), "0"}, {Rate(1.234), "1.23"}, {Rate(12.34), "12.3"}, {Rate(99.4), "99.4"}, {Rate(1234.5), "1,235"},
		{Rate(12345678), "12,345,678"},
		{Percent(0), "0 %"}, {Percent(0.0123), "1.2 %"}, {Percent(0.5), "50 %"}, {Percent(1), "100 %"},
		{Decimal(1e-6), "0.000001"}, {Decimal(1e21), "1000000000000000000000"}, {Decimal(-2.5), "-2.5"},
		{Duration(0), "0"}, {Duration(1e-9), "0.00 µs"}, {Duration(85e-6), "85.0 µs"}, {Duration(999.4e-6), "999 µs"},
		{Duration(999.6e-6), "1.00 ms"}, {Duration(0.00125), "1.25 ms"}, {Duration(0.0999), "99.9 ms"}, {Duration(0.09996),
			"100 ms"},
		{Duration(0.9994), "999 ms"}, {Duration(0.9996), "1.00 s"}, {Duration(30.14), "30.1 s"}, {Duration(3600), "3600 s"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
