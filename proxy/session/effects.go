package session

import (
	"time"

	"weir/proxy/decide"
	"weir/proxy/store"
)

// Effects is what the owner has to do after a Handle call, in the order of the
// fields. The slices are borrowed until the next Handle call on any session of
// the same Env.
type Effects struct {
	// Claims is how many fields of a request were dropped as nobody trusted makes
	// claims about its origin by them.
	Claims int
	// Matched is a request as the rules see it; nil: there is none.
	Matched *decide.Case
	// Decided is the store's decision; nil: there is none.
	Decided *decide.Decided
	// Leave are places to be given back in the queues of leaky counters.
	Leave *Leave
	// Report is what became of a request that is answered, or given up, and decided
	// about before; nil: there is none.
	Report *Outcome
	// Client goes to the client.
	Client []byte
	// Upstream goes to the target's connection held.
	Upstream []byte
	// Release says what becomes of the target's connection held.
	Release Release
	// EndUpstream and EndClient pass on that a tunnel's other side sends no
	// more: a half close behind the last byte.
	EndUpstream, EndClient bool
	// Acquire asks for a connection to a target: HandleAcquired,
	// HandleUnavailable or HandleExhausted follows. Long says that the exchange is
	// known to hold it for long: as a tunnel, as a stream, or because it is private.
	Acquire Acquire
	Long    bool
	// Stream asks whether the answer may be streamed, as only a share of a target's
	// connections may carry streams: HandleStream follows.
	Stream bool
	// Wake asks for HandleWake at that time, precisely; zero: no.
	Wake time.Time
	// Own is a request to an own endpoint: HandleOwn follows.
	Own []byte
	// Close ends the client's connection.
	Close Close
	// Duplex: both directions go on at the same time, and the client is to be read
	// however much of its answer is unsent.
	Duplex bool
	// Read: bytes of the client that were left unread are to be shown again.
	Read bool
}

// A Leave gives places back that the store had given in a mode.
type Leave struct {
	Places []decide.Counted // those of them with a Slot; borrowed
	Mode   store.Mode
}

// A Release says what becomes of a target's connection.
type Release uint8

const (
	ReleaseNone    Release = iota
	ReleaseKeep            // back to the pool
	ReleasePrivate         // it waits for the client's next request, and ends with the client
	ReleaseDiscard         // it cannot be used again
	ReleaseEnd             // likewise, but what was written to it is still sent
)

// An Acquire says which connection to a target is wanted.
type Acquire uint8

const (
	AcquireNone   Acquire = iota
	AcquireAny            // the private one, else an idle one, or a new one
	AcquireFresh          // a new one: an idle one has just failed
	AcquireOther          // one to a target that was not tried: those cannot be reached
	AcquireCancel         // none any more
)

// A Close says how the client's connection ends.
type Close uint8

const (
	CloseNone    Close = iota
	CloseDrained       // after the last byte
	CloseLinger        // likewise, and what the client still sends is discarded
	CloseAbort         // at once and visibly: what was announced will not come
)

// Effects returns what to do and forgets it.
func (s *Session) Effects() (fx Effects) {
	fx = s.fx
	if len(s.env.out) > 0 {
		fx.Client = s.env.out
		s.env.out = s.env.out[:0]
	}
	if len(s.env.up) > 0 {
		fx.Upstream = s.env.up
		s.env.up = s.env.up[:0]
	}
	fx.Duplex = s.state == stateTunnel || s.x.uploads()
	if s.left && s.reads() {
		s.left, fx.Read = false, true
	}
	s.fx = Effects{}
	return fx
}
