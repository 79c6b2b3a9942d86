package wire

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/test/testkit"
	"weir/proxy/targets/gates"
	"weir/proxy/targets/roster"
)

// A transcript is a conversation of clients and targets with a proxy, one step a line. What follows
// # is a comment.
//
//	a GET /held                       client a, which connects if it has not, sends a request
//	a -> 200 echo                     and receives the answer, see answer
//	a GET /x + POST /y body=abc       two requests at once, see request
//	a@127.0.0.2 GET /x -> 503         from an address; @loop1 connects to a loop
//	a,b GET /x -> 200                 first a, then b
//	a*9 GET /x                        clients a1 to a9
//	a* -> 200                         each of those that are connected
//	GET /x -> 200                     the client named client
//	a closes | resets | ends          its connection, or half of it; the next step connects again
//
//	target gets /held /x              requests that arrive at the target, in order, see holds
//	target gets 2                     any two
//	target gets nothing               none has arrived beyond those
//	target answers 2                  requests that it holds; all: for good
//	target stops | crashes | starts   see fakeTarget
//	target opened 2                   connections to it until now
//	target open 2                     waits until that many are open
//	target served 2                   requests that it has read until now
//	b status 503                      answers of a member; health 503: to checks
//	b is down                         waits until the proxy and its loops know it
//
//	targets a b                       these are the proxy's targets from now on
//	waiting 3                         waits until so many requests are busy at the targets or wait
//	line 3                            waits until so many wait for a place of a gate
//	taken 0                           no place of the gate is taken
//	metrics upstream_streams=2        compares samples, see sample
//	until upstream_streams=0          waits until they have these values
//	logged "part"                     waits for a line of the log; logged 1 "part": there is just one
//	drain 1                           drains the proxy, which cuts one connection
//	rest                              closes all clients, and waits until nothing is left of them
//
// A line may have several steps, each but the last with ; behind it, and N x before them repeats all. A
// step that fails is reported with its line.
func (r *rig) play(script string) {
	r.t.Helper()
	_, file, line, _ := runtime.Caller(1)
	r.playAt(file, line, script)
}

// playf is play with a format.
func (r *rig) playf(format string, args ...any) {
	r.t.Helper()
	_, file, line, _ := runtime.Caller(1)
	r.playAt(file, line, fmt.Sprintf(format, args...))
}

// playAt plays a script that begins at a line of a file.
func (r *rig) playAt(file string, line int, script string) {
	r.t.Helper()
	for text := range strings.Lines(script) {
		list, times := words(text), 1
		if len(list) > 2 && list[1] == "x" {
			times, list = r.number(list[0]), list[2:]
		}
		for range times {
			for _, step := range parts(list, ";") {
				r.step = fmt.Sprintf("%s:%d: %.100s", filepath.Base(file), line, strings.Join(step, " "))
				r.perform(step)
			}
		}
		line++
	}
	r.step = ""
}

// words splits a line at spaces outside of quotes. A ; at the end of a word is a word.
func words(line string) (list []string) {
	const space = " \t\n"
	for line = strings.TrimSpace(line); line != "" && line[0] != '#'; line = strings.TrimLeft(line, space) {
		word := ""
		for line != "" && !strings.ContainsRune(space, rune(line[0])) {
			part := line[:1]
			if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' {
				part = quoted
			}
			word, line = word+part, line[len(part):]
		}
		bare, ends := strings.CutSuffix(word, ";")
		if list = append(list, bare); ends {
			list = append(list, ";")
		}
	}
	return list
}

// parts splits words at a separator.
func parts(words []string, separator string) (list [][]string) {
	for at := slices.Index(words, separator); at >= 0; at = slices.Index(words, separator) {
		list, words = append(list, words[:at]), words[at+1:]
	}
	if len(words) == 0 {
		return list
	}
	return append(list, words)
}

// unquote returns the text of a word.
func unquote(word string) string {
	if text, err := strconv.Unquote(word); err == nil {
		return text
	}
	return word
}

// fail ends the test with the step that cannot go on.
func (r *rig) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("%s\n%s", r.step, fmt.Sprintf(format, args...))
}

// equal fails the test unless got is wanted.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// equal fails the test unless got is what a step wants.
func (r *rig) equal(what string, got, want any) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s\n%s: %v, want %v", r.step, what, got, want)
	}
}

// gate returns the gate of the first target.
func (r *rig) gate() *gates.Gate { return r.loops.gate(r.Targets.All()[0]) }

func (r *rig) number(word string) int {
	r.t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		r.fail("%v", err)
	}
	return n
}

func (r *rig) perform(step []string) {
	r.t.Helper()
	if f := r.targets[step[0]]; f != nil {
		r.target(f, step[1:])
		return
	}
	switch rest := step[1:]; step[0] {
	case "waiting":
		r.waiting(r.number(rest[0]))
	case "line":
		r.inQueue(r.number(rest[0]))
	case "metrics":
		r.compare(rest)
	case "until":
		r.until(strings.Join(rest, " "), func() bool { return len(r.differing(rest)) == 0 })
	case "logged":
		r.logged(rest)
	case "targets":
		var list []*roster.Target
		for _, name := range rest {
			list = append(list, r.targets[name].spec())
		}
		r.Targets.Set(list)
	case "taken":
		r.equal("places that are taken", r.gate().Taken(), r.number(rest[0]))
		r.equal("places that the lines have", r.queues.Taken(), r.number(rest[0]))
	case "drain":
		r.equal("connections that were cut", r.drain(r.t.Context()), r.number(rest[0]))
	case "rest":
		for _, c := range r.connected {
			_ = c.Close()
		}
		r.connected = nil
		checkBaseLine(r)
	default:
		r.clientStep(step)
	}
}

// logged waits for a line with some parts, or counts such lines.
func (r *rig) logged(want []string) {
	r.t.Helper()
	count := func() (n int) {
		for _, line := range r.log.Lines("") {
			all := true
			for _, part := range want {
				all = all && strings.Contains(line, unquote(part))
			}
			if all {
				n++
			}
		}
		return n
	}
	if n, err := strconv.Atoi(want[0]); err == nil {
		want = want[1:]
		r.equal("lines of the log", count(), n)
		return
	}
	r.until("it is logged", func() bool { return count() > 0 })
}

// metrics is the step of a transcript.
func (r *rig) metrics(format string, args ...any) {
	r.t.Helper()
	r.compare(words(fmt.Sprintf(format, args...)))
}

// compare fails unless samples have these values, see sample.
func (r *rig) compare(want []string) {
	r.t.Helper()
	for _, fault := range r.differing(want) {
		r.t.Errorf("%s\n%s", r.step, fault)
	}
}

// differing says which samples do not have their values: name=value, or name>=value.
func (r *rig) differing(want []string) (faults []string) {
	r.t.Helper()
	s := r.samples()
	for _, word := range want {
		at := strings.LastIndexByte(word, '=')
		name, least := strings.CutSuffix(word[:at], ">")
		got, n := s[sample(name)], float64(r.number(word[at+1:]))
		if got != n && !(least && got > n) {
			faults = append(faults, fmt.Sprintf("%s is %v, want %s", name, got, word[len(name):]))
		}
	}
	return faults
}

// sample returns the name of a sample without its prefix, and with labels where these words stand
// for it:
//
//	forwarded, rejected     decisions about requests
//	shed.busy               by kind, as errors.timeout
//	responses.503           by status
//	exempt.EXEMPT           by rule
//	r.rejected              decisions by the rule r
func sample(name string) string {
	kind, label, dotted := strings.Cut(name, ".")
	switch {
	case name == "forwarded" || name == "rejected":
		name = fmt.Sprintf("requests_total{decision=%q}", name)
	case !dotted || strings.Contains(kind, "{"):
	case kind == "shed" || kind == "errors":
		name = fmt.Sprintf("upstream_%s_total{kind=%q}", kind, label)
	case kind == "responses":
		name = fmt.Sprintf("responses_total{code=%q}", label)
	case kind == "exempt":
		name = fmt.Sprintf("exempt_requests_total{rule=%q}", label)
	default:
		return ruleMetric(kind, label)
	}
	return "ratelimiter_" + name
}

// target performs a step of a target.
func (r *rig) target(f *fakeTarget, step []string) {
	r.t.Helper()
	verb, n := step[0], 0
	if len(step) > 1 {
		n, _ = strconv.Atoi(step[1])
	}
	switch verb {
	case "gets":
		r.gets(f, step[1:])
	case "answers":
		if step[len(step)-1] == "all" {
			close(f.let)
			return
		}
		for range max(n, 1) {
			f.let <- true
		}
	case "stops":
		f.kill()
	case "crashes":
		f.crash()
	case "starts":
		f.ended.Wait()
		f.start()
	case "opened":
		r.equal("connections to the target", f.opened.Load(), int64(n))
	case "open":
		r.until("the target's connections", func() bool { return f.open() == n })
	case "served":
		r.equal("requests at the target", f.served.Load(), int64(n))
	case "is":
		r.until("the proxy knows it", func() bool { return r.statusOf(f).Status == step[1] && r.known(f.url(), step[1]) })
	case "status":
		f.status.Store(int64(n))
	case "health":
		f.health.Store(int64(n))
	default:
		r.fail("unknown step")
	}
}

func (r *rig) gets(f *fakeTarget, want []string) {
	r.t.Helper()
	n, err := strconv.Atoi(want[0])
	switch {
	case want[0] == "nothing":
		r.equal("further requests at the target", len(f.asked), 0)
	case err == nil:
		for range n {
			testkit.Receive(r.t, f.asked, r.step)
		}
	default:
		for _, target := range want {
			r.equal("the target gets", testkit.Receive(r.t, f.asked, r.step), target)
		}
	}
}
