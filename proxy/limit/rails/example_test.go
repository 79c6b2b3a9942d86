package rails_test

import (
	"fmt"
	"time"

	"weir/proxy/limit"
	"weir/proxy/limit/rails"
)

// A recommendation of ten times as much, as a bucket, goes one step of the way.
func ExampleRails_Judge() {
	usual := rails.Rails{Min: 5, Max: 100_000, Step: 4, Dwell: 3 * time.Minute}
	inForce := rails.LimitInForce{Config: limit.Config{Algorithm: limit.Fixed, Limit: 100, Window: 1}}

	v, err := usual.Judge(time.Now(), inForce, limit.Config{Algorithm: limit.Token, Capacity: 500, FillRate: 1000})
	fmt.Println(v.Config.Algorithm, v.Config.Capacity, v.Config.FillRate, err)
	fmt.Println(&v)
	// Output:
	// token 200 400 <nil>
	// too large a step from 100/s
}
