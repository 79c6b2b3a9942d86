package exchange

// An answer is the state of the answer of an exchange.
type answer uint8

const (
	answerWaiting    answer = iota // nothing has been received
	answerHead                     // part of its head has been received
	answerCollecting               // its head has been received, its body is collected
	answerRelaying                 // its head has been passed on, its body is passed on as it arrives
	answerDone                     // it is written, or was aborted
)

var answerSteps = []step[answer]{
	{answerWaiting, "the proxy answers itself", answerDone},
	{answerWaiting, "its first byte has been received", answerHead},
	{answerHead, "its head has been received", answerCollecting},
	{answerHead, "it is invalid, or the protocol is switched", answerDone},
	{answerCollecting, "it is large, of unknown length, or slow", answerRelaying},
	{answerCollecting, "it is complete or aborted", answerDone},
	{answerRelaying, "it is complete or aborted", answerDone},
}

var answerNext = follow(answerSteps)

// become changes the state.
func (a *answer) become(to answer) {
	if answerNext[*a]>>to&1 == 0 {
		panic("bug: an answer goes from " + a.String() + " to " + to.String())
	}
	*a = to
}

// String names the state.
func (a answer) String() string {
	return [...]string{"waiting", "head", "collecting", "relaying", "done"}[a]
}
