package exchange

import (
	"net/netip"
	"time"

	"weir/internal/http1"
	"weir/proxy/decide"
	"weir/proxy/store"
)

// Effects is what the carrier has to do after a Handle call, in the order of the fields.
// The slices are borrowed until the next Handle call on any exchange of the same Env.
type Effects struct {
	// Claims is how many fields of a request were dropped because they make claims about
	// its origin and no trusted proxy sent them.
	Claims int
	// Noticed is a request whose head was read, unless it is for an own endpoint; nil:
	// there is none.
	Noticed *Noticed
	// Matched is a request as the rules see it; nil: there is none.
	Matched *decide.Case
	// Decided is the store's decision; nil: there is none.
	Decided *decide.Decided
	// Leave are places to be given back in the queues of leaky counters.
	Leave *Leave
	// Report is what became of a request that is answered, or given up after it was
	// decided about; nil: there is none.
	Report *Outcome
	// Client goes to the client.
	Client []byte
	// Upstream goes to the upstream connection held.
	Upstream []byte
	// Release says what becomes of the upstream connection held.
	Release Release
	// Acquire asks for an upstream connection: HandleAcquired, HandleUnavailable or
	// HandleExhausted follows. Long says that the exchange is known to hold it for long: as
	// a tunnel, as a stream, or because it is private.
	Acquire Acquire
	Long    bool
	// Stream asks whether the answer may be streamed, as only a share of a target's
	// connections may carry streams: HandleStream follows.
	Stream bool
	// Wake asks for HandleWake at that time, precisely; zero: no.
	Wake time.Time
	// Own is a request to an own endpoint: HandleOwn follows.
	Own []byte
	// Duplex: the body is passed on as it comes, and the client is to be read however much
	// of its answer is unsent.
	Duplex bool
}

// A Noticed is a request before anything was decided about it, and the address of its
// client: behind trusted proxies not that of the connection. Both are borrowed.
type Noticed struct {
	Head   *http1.Head
	Client netip.Addr
}

// A Leave gives places back that the store had given in a mode.
type Leave struct {
	Places []decide.Counted // those of them with a Slot; borrowed
	Mode   store.Mode
}

// A Release says what becomes of an upstream connection.
type Release uint8

const (
	ReleaseNone    Release = iota
	ReleaseKeep            // back to the pool
	ReleasePrivate         // it waits for the client's next request, and ends with the client
	ReleaseDiscard         // it cannot be used again
	ReleaseEnd             // likewise, but what was written to it is still sent
)

// An Acquire says which upstream connection is wanted.
type Acquire uint8

const (
	AcquireNone   Acquire = iota
	AcquireAny            // the private one, else an idle one, or a new one
	AcquireFresh          // a new one: an idle one has just failed
	AcquireOther          // one to a target that was not tried: those cannot be reached
	AcquireCancel         // none any more
)

// An End says how an exchange has ended, and what its carrier does then.
type End uint8

const (
	EndNone   End = iota // it has not ended
	EndKeep              // the carrier takes the next request
	EndLinger            // nothing more is read, but what the client still sends must not reset the answer
	EndClosed            // nothing more is read: the close ends the answer, or cuts it short visibly
	EndAbort             // the answer is cut short, and only a reset shows it
	EndTunnel            // the protocol is switched: the carrier passes bytes on until EndTunnel
)

// End returns how the exchange has ended and when, and forgets it.
func (x *Exchange) End() (how End, at time.Time) {
	how, x.end = x.end, EndNone
	return how, x.endedAt
}

// Ended reports whether the exchange has ended, and End says how.
func (x *Exchange) Ended() bool { return x.end != EndNone }

// MoveEffects writes what to do to fx, and forgets it.
func (x *Exchange) MoveEffects(fx *Effects) {
	*fx = x.fx
	if len(x.env.out) > 0 {
		fx.Client = x.env.out
		x.env.out = x.env.out[:0]
	}
	if len(x.env.up) > 0 {
		fx.Upstream = x.env.up
		x.env.up = x.env.up[:0]
	}
	fx.Duplex = x.uploads()
	x.fx = Effects{}
}

// AppendClient and AppendUpstream append bytes of a tunnel to the effects.
func (x *Exchange) AppendClient(b []byte)   { x.env.out = append(x.env.out, b...) }
func (x *Exchange) AppendUpstream(b []byte) { x.env.up = append(x.env.up, b...) }
