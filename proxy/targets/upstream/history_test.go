package upstream

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A past is the slow and obvious twin of one target's health: what it is, in
// plain words, and the answers since it last became that.
type past struct {
	status      Status // up, ejected or probing; active checks and retiring are apart
	connects    bool   // ejected because of connects
	until       time.Time
	rises       int // ejections without a quiet time between
	back        time.Time
	checkResult CheckResult
	answers     []answer
	probe       time.Time // until when the probe under way counts
}

type answer struct {
	at     time.Time
	status int
}

// unwell reads the answers from the end to the last good one.
func (p *past) unwell(now time.Time) bool {
	gateway, all := 0, 0
	first := now
	for _, a := range slices.Backward(p.answers) {
		if a.status < 500 {
			break
		}
		all++
		first = a.at
		if a.status == 502 || a.status == 503 || a.status == 504 {
			gateway++
		}
	}
	return gateway >= 5 || all >= 5 && now.Sub(first) >= 5*time.Second
}

// An attempt is a request at a target, or a connect.
type attempt struct {
	target *Target[*node]
	tried  *TriedTargets
	mark   HealthEpoch
}

// A history drives a group with what bytes say, and checks each step against
// the twins.
type history struct {
	t        *testing.T
	data     []byte
	now      time.Time
	balancer *Balancer[*node]
	pasts    map[*Target[*node]]*past
	names    int

	requests, connects []attempt
}

func newHistory(t *testing.T, data []byte) *history {
	h := &history{t: t, data: data, now: epoch, pasts: map[*Target[*node]]*past{}}
	h.balancer = group(Balance(h.n(3)), uint64(h.n(256)))
	for range 1 + h.n(4) {
		h.add()
	}
	return h
}

// n is the next byte as a number below n.
func (h *history) n(n int) int {
	if len(h.data) == 0 {
		return 0
	}
	b := int(h.data[0])
	h.data = h.data[1:]
	return b % n
}

func (h *history) add() {
	h.names++
	h.pasts[h.balancer.Add(&node{name: h.names})] = &past{}
}

func (h *history) any() *Target[*node] {
	if len(h.balancer.Targets()) == 0 {
		return nil
	}
	return h.balancer.Targets()[h.n(len(h.balancer.Targets()))]
}

// take takes one out of the list.
func (h *history) take(list *[]attempt) (a attempt, ok bool) {
	if len(*list) == 0 {
		return a, false
	}
	i := h.n(len(*list))
	a = (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return a, true
}

func (h *history) step() {
	switch op := h.n(16); op {
	case 0, 1, 2, 3:
		h.choose(&TriedTargets{})
	case 4:
		h.now = h.now.Add(time.Duration(h.n(256)) * 50 * time.Millisecond)
	case 5:
		h.now = h.now.Add(time.Duration(h.n(256)) * time.Second)
	case 6, 7, 8:
		h.answered([]int{200, 404, 500, 500, 502, 503, 504}[h.n(7)])
	case 9:
		h.abandoned()
	case 10:
		if t := h.any(); t != nil {
			h.connects = append(h.connects, attempt{target: t, mark: t.Epoch()})
		}
	case 11:
		h.connected()
	case 12, 13:
		h.connectFailed()
	case 14:
		h.checked()
	case 15:
		h.change()
	}
	h.check()
}

// fits are the targets a request may go to, by the words of Balancer.
func (h *history) fits(tried *TriedTargets) (fits []*Target[*node]) {
	var ready, last []*Target[*node]
	for _, t := range h.balancer.Targets() {
		p := h.pasts[t]
		if p.checkResult == CheckedDown {
			continue
		}
		last = append(last, t)
		if p.status == Up || p.status == Probing && !h.now.Before(p.probe) {
			ready = append(ready, t)
		}
	}
	if len(ready) == 0 {
		ready = last
	}
	for _, t := range ready {
		if !tried.has(t.id) {
			fits = append(fits, t)
		}
	}
	return fits
}

// choose has a request choose, for the first or another time.
func (h *history) choose(tried *TriedTargets) {
	h.age()
	fits := h.fits(tried)
	if tried.n == triesMax {
		fits = nil
	}
	t := h.balancer.Choose(h.now, tried)
	if (t == nil) != (len(fits) == 0) || t != nil && !slices.Contains(fits, t) {
		h.t.Fatalf("chosen %v of %d that fit", t, len(fits))
	}
	if t == nil {
		down := func(t *Target[*node]) bool { return h.pasts[t].checkResult == CheckedDown }
		if tried.n == 0 && slices.ContainsFunc(h.balancer.Targets(), func(t *Target[*node]) bool { return !down(t) }) {
			h.t.Fatal("a new request has nowhere to go though not all are down by active checks")
		}
		return
	}
	if h.balancer.balance == LeastInFlight {
		for _, other := range fits {
			if other.Value.inFlight < t.Value.inFlight {
				h.t.Fatalf("chosen one with %d in flight, another has %d", t.Value.inFlight, other.Value.inFlight)
			}
		}
	}
	if p := h.pasts[t]; p.status == Probing && !h.now.Before(p.probe) {
		p.probe = h.now.Add(10 * time.Second)
	}
	t.Value.inFlight++
	h.requests = append(h.requests, attempt{target: t, tried: tried, mark: t.Epoch()})
}

// age lets ejections end.
func (h *history) age() {
	for _, p := range h.pasts {
		if p.status == Ejected && !h.now.Before(p.until) {
			p.status = Probing
		}
	}
}

func (h *history) answered(status int) {
	a, ok := h.take(&h.requests)
	if !ok {
		return
	}
	h.age()
	a.target.Value.inFlight--
	p, stale := h.pasts[a.target], a.mark != a.target.Epoch()
	a.target.Answered(h.now, a.mark, status)
	switch {
	case stale:
	case status < 500 && p.status != Up:
		h.up(p)
	case p.status == Probing && status >= 502:
		h.ejected(a.target, false)
	case p.status == Up:
		p.answers = append(p.answers, answer{h.now, status})
		if status >= 500 && p.unwell(h.now) {
			h.ejected(a.target, false)
		}
	default:
		p.probe = time.Time{}
	}
}

func (h *history) abandoned() {
	if a, ok := h.take(&h.requests); ok {
		a.target.Value.inFlight--
		if a.mark == a.target.Epoch() {
			h.pasts[a.target].probe = time.Time{}
		}
		a.target.Abandoned(a.mark)
	}
}

func (h *history) connected() {
	if a, ok := h.take(&h.connects); ok {
		h.age()
		a.target.Connected(h.now)
		if p := h.pasts[a.target]; p.status != Up && p.connects {
			h.up(p)
		}
	}
}

// connectFailed has a connect fail, and a request at the target go elsewhere.
func (h *history) connectFailed() {
	a, ok := h.take(&h.connects)
	if !ok {
		return
	}
	h.age()
	stale := a.mark != a.target.Epoch()
	a.target.ConnectFailed(h.now, a.mark)
	if !stale && h.pasts[a.target].status != Ejected {
		h.ejected(a.target, true)
	}
	for i, r := range h.requests {
		if r.target == a.target {
			h.requests = slices.Delete(h.requests, i, i+1)
			if r.mark == r.target.Epoch() {
				h.pasts[r.target].probe = time.Time{}
			}
			r.target.Abandoned(r.mark)
			r.target.Value.inFlight--
			h.choose(r.tried)
			return
		}
	}
}

func (h *history) up(p *past) {
	*p = past{status: Up, back: h.now, rises: p.rises, checkResult: p.checkResult}
}

// ejected checks the length of an ejection that must have begun now.
func (h *history) ejected(t *Target[*node], connects bool) {
	p := h.pasts[t]
	if p.status == Up && h.now.Sub(p.back) >= 30*time.Second {
		p.rises = 0
	}
	want, got := min(time.Second<<min(p.rises, 10), 30*time.Second), t.until.Sub(h.now)
	if got < want || got > want+want/4 {
		h.t.Fatalf("ejection %d in a row: for %v, want %v and up to a quarter", p.rises+1, got, want)
	}
	*p = past{status: Ejected, until: t.until, connects: connects, rises: p.rises + 1, back: p.back,
		checkResult: p.checkResult}
}

func (h *history) checked() {
	t := h.any()
	if t == nil {
		return
	}
	v := CheckResult(h.n(3))
	t.Checked(h.now, v, h.now)
	p := h.pasts[t]
	if p.checkResult == CheckedDown && v == CheckedUp {
		h.up(p)
	}
	p.checkResult = v
}

// change changes the list.
func (h *history) change() {
	switch h.n(2) {
	case 0:
		if len(h.balancer.Targets()) < 12 {
			h.add()
		}
	case 1:
		if t := h.any(); t != nil {
			h.balancer.Retire(t)
		}
	}
}

// check compares every status with its twin's.
func (h *history) check() {
	h.age()
	for _, t := range h.balancer.Targets() {
		p := h.pasts[t]
		want := p.status
		if p.checkResult == CheckedDown {
			want = Down
		}
		if got := t.Status(h.now); got != want {
			h.t.Fatalf("target %d is %v, its twin %v", t.Value.name, got, want)
		}
	}
}

func drive(t *testing.T, data []byte) {
	h := newHistory(t, data)
	for len(h.data) > 0 {
		h.step()
	}
	h.check()
	h.choose(&TriedTargets{})
}

func TestGroupHistories(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		data := make([]byte, 2000)
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		drive(t, data)
	}
}

func FuzzGroup(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 10, 0, 12, 0, 0, 4, 30, 0, 10, 0, 11, 0})
	f.Add([]byte{1, 1, 1, 0, 6, 0, 5, 0, 6, 0, 5, 0, 6, 0, 5, 0, 6, 0, 5, 0, 6, 0, 5, 0, 4, 40, 0, 0})
	f.Add([]byte{2, 1, 3, 14, 0, 2, 14, 1, 2, 14, 2, 2, 14, 3, 2, 0, 15, 1, 0, 15, 0})
	f.Fuzz(func(t *testing.T, data []byte) { drive(t, data[:min(len(data), 1<<12)]) })
}
