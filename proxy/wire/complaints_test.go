package wire

import (
	"testing"
)

// What is wrong with the answers of a target is logged, once a minute for each target.
func TestGarbledAnswersAreLogged(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{"220 mail ready\r\n": "",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab":           "Content-Length",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n": "not asked for"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel() // housekeeping looks once a second
			r := serve(t, says(text))
			const logged = "The answer of a target is not valid HTTP"
			r.playf(`a GET / -> 502; logged %q
				b*8 GET / -> 502 # on both loops`, logged)
			r.until("housekeeping has seen them", func() bool {
				for _, s := range r.loops {
					for _, seen := range *s.seen.Load() {
						if seen.garbled.Load() != nil {
							return false
						}
					}
				}
				return true
			})
			r.playf(`logged 1 %q; logged 1 %[1]q target=%s %q`, logged, r.targets["target"].url(), reason)
		})
	}
}

// A request that has passed a proxy of the same name is logged.
func TestLoopIsLogged(t *testing.T) {
	t.Parallel() // housekeeping looks once a second
	serve(t, echoes).play(`
		GET / Via="1.1 weir" -> 508; logged "Requests had passed this proxy before" VIA_NAME count=1`)
}
