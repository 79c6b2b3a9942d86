package gate

import "time"

// A situation is what a window says about the target and the limit.
type situation uint8

const (
	firstAnswers   situation = iota // nothing was known of the target before
	cutTooFar                       // the limit fell further than the target's work, see tooFar
	probeOver                       // the window is that of a probe
	probeDue                        // a probe is to begin
	uncertain                       // by chance the window may say what it says
	fullBriefly                     // the limit binds, and requests wait, but for a short time
	fullOverloaded                  // the limit binds, and requests wait
	fullSlower                      // the limit fell because answers came more rarely, and nothing waits
	fullMixed                       // the limit binds, and some answers take much longer than others
	fullStarting                    // the limit has bound since the first probe, and nothing waits
	fullCalm                        // the limit binds, and nothing waits
	fullBusy                        // the limit binds, and few requests wait
	roomOverloaded                  // the limit does not bind, and most requests wait, for a second
	roomCalm                        // the limit does not bind, and hardly anything waits
	roomAmple                       // the limit is higher than a crowd needs
	roomQueued                      // the limit does not bind, and requests wait, many or for long
	roomBusy                        // the limit does not bind, and few requests wait
)

// A move is a row of the table of situations: what the gate does, and why.
// docs/design/005-gate.md shows the table.
type move struct {
	of  situation
	do  func(*Gate, time.Time, *reading) // nil: the window goes on
	why string
}

var moves = [...]move{
	{firstAnswers, (*Gate).begin, "a first limit; a probe begins, as what was seen so far may be a queue"},
	{cutTooFar, (*Gate).takeBack, "the limit rises to what is worked on plus its square root"},
	{probeOver, (*Gate).endProbe, "the limit is restored; the answer times are those without a queue"},
	{probeDue, (*Gate).beginProbe, "the limit is at most half for a short time"},
	{uncertain, nil, "the next answers tell"},
	{fullBriefly, nil, "a short queue passes by itself"},
	{fullOverloaded, (*Gate).reduce, "the limit falls to what is worked on plus its square root"},
	{fullSlower, (*Gate).restore, "the limit is restored: the target takes longer, but as many at a time"},
	{fullMixed, (*Gate).growSlowly, "the limit grows by half its square root, as those that take longer may wait"},
	{fullStarting, (*Gate).growFirst, "the limit grows fast, as it is not known yet how many the target takes"},
	{fullCalm, (*Gate).grow, "the limit grows, as the target may take more"},
	{fullBusy, (*Gate).approach, "the limit approaches what is worked on plus its square root"},
	{roomOverloaded, (*Gate).reduceRoom, "the limit falls to what is worked on plus its square root"},
	{roomCalm, (*Gate).leaveRoom, "the limit leaves room for a crowd"},
	{roomAmple, (*Gate).leaveRoom, "the limit leaves room for a crowd"},
	{roomQueued, (*Gate).giveWay, "the limit falls half of the way to what is in flight, as another proxy's gate binds"},
	{roomBusy, (*Gate).keep, "the limit stays"},
}

// facts are what a situation follows from.
type facts struct {
	tooFar  bool          // see Gate.tooFar
	first   bool          // nothing was known of the target before
	probing bool          // a probe is under way
	due     bool          // a probe is to begin
	full    bool          // the limit binds
	long    bool          // a decision no longer waits for more certainty
	mixed   bool          // some answers take much longer than others
	starts  bool          // see Gate.starting
	lowest  bool          // the limit has been the lowest possible for long
	slumped bool          // the limit fell because answers came more rarely
	ample   bool          // the limit is higher than a crowd needs
	waiting float64       // share of the answer time in the window
	noise   float64       // standard deviation of waiting
	lately  float64       // waiting, smoothed
	bound   time.Duration // for how long the limit has bound
	queued  time.Duration // for how long there may have been a queue
}

// situation names what the facts say.
func (f *facts) situation() situation {
	switch {
	case f.first:
		return firstAnswers
	case f.tooFar:
		return cutTooFar
	case f.probing:
		return probeOver
	case f.due:
		return probeDue
	case f.full:
		return f.whenFull()
	default:
		return f.withRoom()
	}
}

// whenFull names the situation while the limit binds.
func (f *facts) whenFull() situation {
	switch overloaded := f.waiting-2*f.noise > queueMost; {
	case overloaded && f.bound < burst && f.queued < burst:
		return fullBriefly
	case !overloaded && !f.long && !f.starts && (f.mixed || f.waiting+2*f.noise >= queueDoubt):
		return uncertain
	case overloaded && !f.lowest:
		return fullOverloaded
	case f.waiting < queueLeast && f.slumped:
		return fullSlower
	case f.starts:
		return fullStarting
	case f.mixed:
		return fullMixed
	case f.waiting < queueLeast:
		return fullCalm
	default:
		return fullBusy
	}
}

// withRoom names the situation while the limit does not bind.
func (f *facts) withRoom() situation {
	switch least := f.waiting - 2*f.noise; {
	case !f.long && f.waiting > queueUnclear:
		return uncertain
	case f.lately > queueMuch && least > queueMuch && f.queued > queueLasts:
		return roomOverloaded
	case f.mixed && !f.ample: // those that take longer may wait
		return roomBusy
	case f.lately <= queueSome && least <= queueSome:
		return roomCalm
	case f.ample:
		return roomAmple
	case f.lately > queueMost || f.queued > queueStands:
		return roomQueued
	default:
		return roomBusy
	}
}

// String names the situation.
func (s situation) String() string {
	return [...]string{"first answers", "cut too far", "probe over", "probe due", "uncertain", "full, briefly",
		"full, overloaded", "full, slower", "full, mixed", "full, starting", "full, calm", "full, busy", "room, overloaded",
		"room, calm", "room, ample", "room, queued", "room, busy"}[s]
}
