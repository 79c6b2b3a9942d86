package exchange

// An answer is how far the answer of an exchange has come.
type answer uint8

const (
	answerWaiting    answer = iota // nothing of it has come
	answerHead                     // some of it has come, its head is not complete
	answerCollecting               // its head has come, its body is collected
	answerRelaying                 // it is passed on as it comes: its head has been
	answerDone                     // it is written, or broken off
)

var answerSteps = []step[answer]{
	{answerWaiting, "the proxy answers by itself", answerDone},
	{answerWaiting, "its first byte has come", answerHead},
	{answerHead, "its head has come", answerCollecting},
	{answerHead, "it is no answer, or its protocol is switched", answerDone},
	{answerCollecting, "it is large, of unknown length, or slow", answerRelaying},
	{answerCollecting, "it is complete, or broken off", answerDone},
	{answerRelaying, "it is complete, or broken off", answerDone},
}

var answerNext = follow(answerSteps)

// become goes on to the next state.
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
