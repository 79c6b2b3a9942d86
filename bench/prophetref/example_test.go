package prophetref

import (
	"fmt"
	"time"
)

func Example() {
	var rows []Row
	for i := range 28 {
		at := time.Date(2026, 3, 2+i, 0, 0, 0, 0, time.UTC)
		value := 100.0 + float64(i)
		if at.Weekday() == time.Sunday {
			value -= 50
		}
		rows = append(rows, Row{at, value})
	}
	m, err := Fit(rows)
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		at := time.Date(2026, 4, 3+i, 0, 0, 0, 0, time.UTC)
		fmt.Printf("%s %.0f\n", at.Weekday(), m.At(at))
	}
	// Output:
	// Friday 132
	// Saturday 133
	// Sunday 84
}
