package rls

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/data/strict"
)

// Bounds of a request: entries are large in memory beside their encoded form.
const (
	DescriptorsMax = 256
	entriesMax     = 1024 // of all descriptors
)

var (
	errDescriptors = strict.Fault{Path: "descriptors", Message: "must be at most " + strconv.Itoa(DescriptorsMax)}
	errEntries     = strict.Fault{Path: "entries", Message: "must be at most " + strconv.Itoa(entriesMax) +
		" in all descriptors"}
)

// A Request asks whether a request described by several descriptors may pass.
//
// Owned by its loop.
type Request struct {
	Domain      []byte
	Descriptors []Descriptor
	HitsAddend  uint32 // of descriptors without one of their own; 0: 1
}

// A Descriptor is a list of entries. The limit configured for them determines its meaning.
type Descriptor struct {
	Entries  []Entry
	Override Override // replaces the limit of the configuration
	Hits     Hits     // replaces Request.HitsAddend
	Negative bool     // hits are given back
}

// An Entry is a key with its value.
type Entry struct {
	Key, Value []byte
}

// An Override is a limit in a request, which replaces that of the configuration.
type Override struct {
	Given           bool
	RequestsPerUnit uint32
	Unit            Unit
}

// Hits is how many hits a descriptor is charged; 0 charges nothing.
type Hits struct {
	Given bool
	Value uint64
}

// A Response is the answer to a Request.
//
// Owned by its loop.
type Response struct {
	OverallCode Code
	Statuses    []Status // of the descriptors, in their order
	Headers     []Header // to be added to the answer to the client
	RawBody     []byte   // of the answer to a client that is refused
	Metadata    Struct   // of the request, for later filters
}

// A Status is the answer about one descriptor.
type Status struct {
	Code       Code
	Limit      Limit
	Remaining  uint32
	UntilReset time.Duration // whole seconds; 0: there is no limit
}

// A Limit is the limit of a descriptor. Given is false if it has none.
type Limit struct {
	Given           bool
	Name            string
	RequestsPerUnit uint32
	Unit            Unit
}

// A Header is a field to add to the answer to the client.
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

// String returns the name in rls.proto.
func (c Code) String() string { return [...]string{"UNKNOWN", "OK", "OVER_LIMIT"}[c] }

// A Unit is the window of a limit. All windows begin at multiples of their length since 1970, so
// months and years are not those of the calendar.
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

// A unit is the name and the length of a Unit.
type unit struct {
	name   string
	length time.Duration
}

var units = [...]unit{
	NoUnit: {"UNKNOWN", 0},
	Second: {"SECOND", time.Second},
	Minute: {"MINUTE", time.Minute},
	Hour:   {"HOUR", time.Hour},
	Day:    {"DAY", day},
	Month:  {"MONTH", 30 * day},
	Year:   {"YEAR", 365 * day},
	Week:   {"WEEK", 7 * day},
}

// unit returns the name and the length; a number that rls.proto does not have is [NoUnit].
func (u Unit) unit() *unit {
	if u < 0 || int(u) >= len(units) {
		u = NoUnit
	}
	return &units[u]
}

// String returns the name in rls.proto.
func (u Unit) String() string { return u.unit().name }

// Window returns the length of the unit, or 0 for [NoUnit].
func (u Unit) Window() time.Duration { return u.unit().length }

// UnitNames lists the units as written in files.
const UnitNames = "second, minute, hour, day, week, month, year"

// UnmarshalText parses a unit of a configuration file, in any case.
func (u *Unit) UnmarshalText(text []byte) error {
	if named, ok := unitNamed(strings.ToUpper(string(text))); ok && named != NoUnit {
		*u = named
		return nil
	}
	return fmt.Errorf("must be one of "+UnitNames+", is %q", text)
}

func unitNamed(name string) (Unit, bool) {
	i := slices.IndexFunc(units[:], func(u unit) bool { return u.name == name })
	return Unit(i), i >= 0
}

// UnitOf returns the unit whose window that is, or [NoUnit].
func UnitOf(window time.Duration) Unit {
	return Unit(max(0, slices.IndexFunc(units[:], func(u unit) bool { return u.length == window })))
}

// ClampUint32 returns n as the value of a uint32 field, limited to its range.
func ClampUint32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
