package limit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/data/number"
	"weir/internal/data/strict"
)

// Validate returns all [strict.Faults] of the configuration, or nil. Besides missing and
// negative numbers it refuses numbers that cannot be represented exactly, which
// [Config.Rounded] rounds, and logs that are too long for one key; see [LogMax].
func (c Config) Validate() error {
	var faults strict.Faults
	for _, f := range c.numbers() {
		needed := f.name != "burst" && slices.Contains(c.Algorithm.Fields(), f.name)
		switch {
		case !(f.value >= 0) || math.IsInf(f.value, 0):
			faults = append(faults, fault(f.name, "must be greater than 0, is %s", number.Decimal(f.value))...)
		case needed && f.value == 0:
			faults = append(faults, fault(f.name, "is missing or 0; algorithm %v needs it, greater than 0", c.Algorithm)...)
		}
	}
	switch c.Algorithm {
	case Fixed, Sliding, SlidingLog, GCRA:
		if len(faults) == 0 {
			faults = c.windowFaults()
		}
	case Token, Leaky:
		if len(faults) == 0 {
			faults = c.rateFaults()
		}
	case Off:
	default:
		faults = append(faults, fault("algorithm", "is missing; must be one of %s", words())...)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// fault returns one fault of a configuration.
func fault(path, format string, args ...any) strict.Faults {
	return strict.Faults{{Path: path, Message: fmt.Sprintf(format, args...)}}
}

// A field is one of a configuration's numbers, with its JSON name.
type field struct {
	name  string
	value float64
}

// numbers returns all numbers of the configuration.
func (c Config) numbers() []field {
	return []field{{"limit", float64(c.Limit)}, {"window", c.Window}, {"capacity", float64(c.Capacity)},
		{"fillRate", c.FillRate}, {"burst", float64(c.Burst)}}
}

// String returns the algorithm and the numbers that it uses, in the form of log lines.
func (c Config) String() string {
	text := "algorithm=" + c.Algorithm.String()
	c.Burst = c.burst()
	for _, f := range c.numbers() {
		if slices.Contains(c.Algorithm.Fields(), f.name) {
			text += ", " + f.name + "=" + number.Decimal(f.value)
		}
	}
	return text
}

// Fields returns the JSON names of the numbers of a Config.
func Fields() (names []string) {
	for _, n := range (Config{}).numbers() {
		names = append(names, n.name)
	}
	return names
}

// UnusedFields returns the names of the numbers that are set although the algorithm does not use
// them.
func (c Config) UnusedFields() (names []string) {
	for _, n := range c.numbers() {
		if n.value != 0 && !slices.Contains(c.Algorithm.Fields(), n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

// windowFaults reports numbers greater than 0 that cannot be represented exactly.
func (c Config) windowFaults() strict.Faults {
	window, exact := micro(c.Window)
	switch {
	case c.Window > spanMax/second:
		return fault("window", "must be at most %d seconds (100 years), is %s", spanMax/second, number.Decimal(c.Window))
	case !exact:
		return fault("window", "must be whole microseconds (6 decimals), is %s", number.Decimal(c.Window))
	}
	unit := int64(1)
	if c.Algorithm == Sliding {
		unit = resolution(window)
	}
	if window%unit != 0 {
		return fault("window", "must be a multiple of %v when it is that long, is %s seconds",
			time.Duration(unit)*time.Microsecond, number.Decimal(c.Window))
	}
	if c.Algorithm == GCRA {
		return c.burstFaults(window)
	}
	limitMax := limitMax(c.Algorithm, window)
	switch {
	case c.Limit <= limitMax:
		return nil
	case c.Algorithm == SlidingLog:
		return fault("limit", "must be at most %d with sliding_log in a window of %s seconds, because each request is "+
			"remembered for that long; sliding needs no memory; is %d", limitMax, number.Decimal(c.Window), c.Limit)
	}
	return fault("limit", "must be at most %d to be counted exactly in a window of %s seconds, is %d", limitMax,
		number.Decimal(c.Window), c.Limit)
}

// burstFaults reports bursts that cannot be represented exactly.
func (c Config) burstFaults(window int64) strict.Faults {
	if c.Limit > exactMax {
		return fault("limit", "must be at most %d to be counted exactly, is %d", int64(exactMax), c.Limit)
	}
	if burstMax := exactMax / window; c.burst() > burstMax {
		return fault("burst", "must be at most %d to be counted exactly in a window of %s seconds, is %d", burstMax,
			number.Decimal(c.Window), c.Burst)
	}
	if float64(c.burst())*float64(window)/float64(c.Limit) > spanMax {
		return fault("burst", "must be over within 100 years, is %d", c.Burst)
	}
	return nil
}

// rateFaults reports numbers greater than 0 that cannot be represented exactly.
func (c Config) rateFaults() strict.Faults {
	rate, exact := micro(c.FillRate)
	switch {
	case c.FillRate > exactMax/second:
		return fault("fillRate", "must be at most %d per second, is %s", exactMax/second, number.Decimal(c.FillRate))
	case !exact:
		return fault("fillRate", "must have at most 6 decimals to be held exactly, is %s%s",
			number.Decimal(c.FillRate), c.near())
	}
	if capacityMax := c.capacityMax(rate); c.Capacity > capacityMax {
		return fault("capacity", "must be at most %d to be counted exactly with a fillRate of %s, is %d%s", capacityMax,
			number.Decimal(c.FillRate), c.Capacity, c.near())
	}
	if float64(c.Capacity)/float64(rate) > spanMax/second/second {
		return fault("fillRate", "must fill a capacity of %d within 100 years, is %s", c.Capacity, number.Decimal(c.FillRate))
	}
	return nil
}

// near suggests a rate near fillRate that can be represented exactly, if there is one.
func (c Config) near() string {
	near := c.roundedRate()
	if near == c.FillRate {
		return ""
	}
	return "; a fillRate of " + number.Decimal(near) + " could be"
}
