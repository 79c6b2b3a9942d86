package exchange

// An upstream is what an exchange has of an upstream connection.
type upstream uint8

const (
	upstreamNone   upstream = iota // nothing
	upstreamWanted                 // waits for one
	upstreamHeld                   // holds one
	upstreamReused                 // likewise, and it has served before
)

var upstreamSteps = []step[upstream]{
	{upstreamNone, "the request is to go on", upstreamWanted},
	{upstreamWanted, "the target chosen has none", upstreamWanted},
	{upstreamWanted, "there is a new one, or the private one", upstreamHeld},
	{upstreamWanted, "there is one that was idle", upstreamReused},
	{upstreamHeld, "it is let go, or lost", upstreamNone},
	{upstreamReused, "it is let go, or lost", upstreamNone},
}

var upstreamNext = follow(upstreamSteps)

// become goes on to the next state.
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
