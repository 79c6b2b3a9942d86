package rls

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A Request asks whether a request that is described by several descriptors may pass.
//
// Owned by its loop.
type Request struct {
	Domain      []byte
	Descriptors []Descriptor
	HitsAddend  uint32 // of descriptors without one of their own; 0: 1
}

// A Descriptor is a list of entries. The limit that it finds says what it means.
type Descriptor struct {
	Entries  []Entry
	Override Override // in place of a limit of the configuration
	Hits     Hits     // in place of Request.HitsAddend
	Negative bool     // hits are given back
}

// An Entry is a key with its value.
type Entry struct {
	Key, Value []byte
}

// An Override is a limit that the asker brings.
type Override struct {
	Given           bool
	RequestsPerUnit uint32
	Unit            Unit
}

// Hits is how much a descriptor is charged; 0 only looks.
type Hits struct {
	Given bool
	Value uint64
}

// A Response is the answer.
//
// Owned by its loop.
type Response struct {
	OverallCode Code
	Statuses    []Status // of the descriptors, in their order
	Headers     []Header // to be added to the answer to the client
	RawBody     []byte   // of the answer to a client that is refused
	Metadata    []Field  // of the request, for later filters
}

// A Status is the answer about one descriptor.
type Status struct {
	Code       Code
	Limit      Limit
	Remaining  uint32
	UntilReset time.Duration // whole seconds; 0: there is no limit
}

// A Limit is the one that a descriptor has found. Given is false when it has found none.
type Limit struct {
	Given           bool
	Name            string
	RequestsPerUnit uint32
	Unit            Unit
}

// A Header is a field of an answer.
type Header struct {
	Key, Value []byte
}

// A Code says whether a request may pass.
type Code int32

// The codes.
const (
	Unknown Code = iota
	OK
	OverLimit
)

// String is the name in rls.proto.
func (c Code) String() string { return [...]string{"UNKNOWN", "OK", "OVER_LIMIT"}[c] }

// A Unit is the window of a limit. All windows begin at multiples of their length since
// 1970: months and years are not those of the calendar.
type Unit int32

// The units, by their numbers in rls.proto.
const (
	NoUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Month
	Year
	Week
)

const day = 24 * time.Hour

// units has the names, and the lengths.
var units = [...]struct {
	name   string
	length time.Duration
}{
	NoUnit: {"UNKNOWN", 0},
	Second: {"SECOND", time.Second},
	Minute: {"MINUTE", time.Minute},
	Hour:   {"HOUR", time.Hour},
	Day:    {"DAY", day},
	Month:  {"MONTH", 30 * day},
	Year:   {"YEAR", 365 * day},
	Week:   {"WEEK", 7 * day},
}

// String is the name in rls.proto.
func (u Unit) String() string {
	if u < 0 || int(u) >= len(units) {
		return "UNKNOWN"
	}
	return units[u].name
}

// Window is the length of the unit; 0: it is none.
func (u Unit) Window() time.Duration {
	if u < 0 || int(u) >= len(units) {
		return 0
	}
	return units[u].length
}

// UnitNames are the units as people write them in files.
const UnitNames = "second, minute, hour, day, week, month, year"

// UnmarshalText reads a unit of a configuration file, in any case.
func (u *Unit) UnmarshalText(text []byte) error {
	if named, ok := unitNamed(strings.ToUpper(string(text))); ok && named != NoUnit {
		*u = named
		return nil
	}
	return fmt.Errorf("must be one of "+UnitNames+", is %q", text)
}

// unitNamed returns the unit of a name.
func unitNamed(name string) (Unit, bool) {
	for u := range units {
		if units[u].name == name {
			return Unit(u), true
		}
	}
	return 0, false
}

// UnitOf returns the unit of a window; [NoUnit]: there is none that long.
func UnitOf(window time.Duration) Unit {
	for u := range units {
		if units[u].length == window {
			return Unit(u)
		}
	}
	return NoUnit
}

// Count is a number as it is shown in a message: at most the largest that a field holds.
func Count(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
