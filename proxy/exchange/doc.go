// Package exchange is the data path: one request with its answer, fed with what happened
// and what time it is, answering with what to do. It decides about the request, forwards
// it if it may pass, and relays the answer; it touches no socket, clock, goroutine or log,
// and knows no connection.
//
// A carrier brings exchanges: a connection of HTTP/1.1 one after the other (package
// session), a stream of HTTP/2 or a stored request one each. The carrier reads the request
// and calls HandleHead, HandleBody while Reads, and HandleBodyEnd; of a request that is
// Refused it says with HandleUnread whether the body had come. The answer is written as a
// message of HTTP/1.1; what is to be done stands in Effects after each call, and End says
// how the exchange has ended.
//
// A request, the upstream connection that is wanted for it, and its answer go through
// states of their own:
//
//	request     becomes     when
//	none        asked       the limiter is asked
//	none        collecting  no limit applies to it
//	none        refused     it goes no further, or lacks a part of a rule's key
//	asked       collecting  it may pass
//	asked       queued      it may pass later
//	asked       refused     it may not pass
//	asked       deferring   it may not pass, and is to be delivered later
//	queued      collecting  its slot has come
//	collecting  whole       all of it has come
//	collecting  streaming   it is larger than what is collected
//	streaming   whole       all of it has come
//	deferring   storing     all of it has come
//	deferring   refused     it is larger than what is stored, or its key is not proper
//
//	upstream    becomes     when
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
// that breaks off can still become a 502. A request that streams wants an upstream
// connection at once, and is read while that is held. HandleClientFull and
// HandleTargetFull say when one side takes nothing, and the exchange then wants nothing
// from the other. After a switch of protocols it holds the upstream connection of a tunnel
// until EndTunnel.
package exchange
