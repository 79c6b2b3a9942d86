package strict_test

import (
	"fmt"

	"weir/internal/data/strict"
)

func ExampleDecode() {
	var profile struct {
		Steps []struct {
			RPS      float64 `json:"rps"`
			Duration float64 `json:"duration"`
		} `json:"steps"`
	}
	fmt.Println(strict.Decode([]byte(`{"steps":[{"rps":100,"duration":30}]}`), &profile), profile.Steps[0].RPS)
	fmt.Println(strict.Decode([]byte(`{"steps":[{"rps":"100"}]}`), &profile))
	fmt.Println(strict.Decode([]byte(`{"steps":[{"rate":100}]}`), &profile))
	fmt.Println(strict.Decode([]byte(`{"steps":[]`), &profile))
	// Output:
	// <nil> 100
	// steps[0].rps: must be a number, is "100"
	// steps[0].rate: unknown field; allowed: rps, duration
	// not valid JSON: line 1, column 12: want a comma or the end of the object, have the end
}

// The parameters of a profile depend on its type.
func ExampleRaw() {
	var profile struct {
		Type   string     `json:"type"`
		Params strict.Raw `json:"params"`
	}
	_ = strict.Decode([]byte(`{"type":"constant","params":{"rsp":100}}`), &profile)

	var constant struct {
		RPS float64 `json:"rps"`
	}
	err := strict.Decode(profile.Params, &constant)
	fmt.Println(strict.WithPath("profile.params", err))
	// Output:
	// profile.params.rsp: unknown field; allowed: rps
}
