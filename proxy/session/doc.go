// Package session is the data path: one client connection of the proxy, told
// what happened and what time it is, answering with what to do. It reads
// requests, asks the limiter, forwards what may pass and relays the answer; it
// touches no socket, clock, goroutine or log.
//
// One exchange at a time is under way; the next request on the connection is
// read when it is over. An exchange has a request, a link to a target and an
// answer, and each of them goes through states of its own:
//
//	request     becomes     when
//	none        asked       the limiter is asked
//	none        collecting  no limit applies to it
//	none        refused     it lacks a part of a rule's key
//	asked       collecting  it may pass
//	asked       queued      it may pass later
//	asked       refused     it may not pass
//	queued      collecting  its slot has come
//	collecting  whole       all of it has come
//	collecting  streaming   it is larger than what is collected
//	streaming   whole       all of it has come
//
//	link        becomes     when
//	none        wanted      the request is to go on
//	wanted      wanted      the target chosen has none
//	wanted      held        there is a new one, or the private one
//	wanted      reused      there is one that was idle
//	held        none        it is let go, or lost
//	reused      none        it is let go, or lost
//
//	answer      becomes     when
//	waiting     done        the proxy answers by itself
//	waiting     head        its first byte has come
//	head        collecting  its head has come
//	head        done        it is no answer, or its protocol is switched
//	collecting  relaying    it is large, of unknown length, or slow
//	collecting  done        it is complete, or broken off
//	relaying    done        it is complete, or broken off
//
// The decision comes before the body: a refused upload is answered without
// being read. Small bodies are collected in both directions, so that an answer
// that breaks off can still become a 502. A request that streams wants its link
// at once, and is read while that is held. HandleClientFull and HandleTargetFull
// say when one side takes nothing, and the session then wants nothing from the
// other. After a switch of protocols the session is a tunnel until both sides
// have ended. A client that sends no more may still read: a request that is whole
// is answered, then the connection closes.
//
// The owner calls one Handle method at a time and then does what Effects says.
package session
