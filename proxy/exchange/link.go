package exchange

// A link is what an exchange has of a connection to a target.
type link uint8

const (
	linkNone   link = iota // nothing
	linkWanted             // waits for one
	linkHeld               // holds one
	linkReused             // likewise, and it has served before
)

var linkSteps = []step[link]{
	{linkNone, "the request is to go on", linkWanted},
	{linkWanted, "the target chosen has none", linkWanted},
	{linkWanted, "there is a new one, or the private one", linkHeld},
	{linkWanted, "there is one that was idle", linkReused},
	{linkHeld, "it is let go, or lost", linkNone},
	{linkReused, "it is let go, or lost", linkNone},
}

var linkNext = follow(linkSteps)

// become goes on to the next state.
func (l *link) become(to link) {
	if linkNext[*l]>>to&1 == 0 {
		panic("bug: a link goes from " + l.String() + " to " + to.String())
	}
	*l = to
}

// held reports whether the exchange holds a connection.
func (l link) held() bool { return l >= linkHeld }

// String names the state.
func (l link) String() string { return [...]string{"none", "wanted", "held", "reused"}[l] }
