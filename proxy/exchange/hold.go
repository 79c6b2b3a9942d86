package exchange

// An upstream is the state of the upstream connection of an exchange.
type upstream uint8

const (
	upstreamNone   upstream = iota // there is none
	upstreamWanted                 // the exchange waits for one
	upstreamHeld                   // the exchange holds one
	upstreamReused                 // likewise, and it has served other exchanges
)

var upstreamSteps = []step[upstream]{
	{upstreamNone, "the request is forwarded", upstreamWanted},
	{upstreamWanted, "the chosen target has none", upstreamWanted},
	{upstreamWanted, "a new one is available, or the private one", upstreamHeld},
	{upstreamWanted, "an idle one is available", upstreamReused},
	{upstreamHeld, "it is released or lost", upstreamNone},
	{upstreamReused, "it is released or lost", upstreamNone},
}

var upstreamNext = follow(upstreamSteps)

// become changes the state.
func (u *upstream) become(to upstream) {
	if upstreamNext[*u]>>to&1 == 0 {
		panic("bug: an upstream connection goes from " + u.String() + " to " + to.String())
	}
	*u = to
}

// held reports whether the exchange holds a connection.
func (u upstream) held() bool { return u >= upstreamHeld }

// String names the state.
func (u upstream) String() string { return [...]string{"none", "wanted", "held", "reused"}[u] }
