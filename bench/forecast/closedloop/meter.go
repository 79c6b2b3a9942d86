package closedloop

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"weir/proxy/limit"
)

const (
	lowLoad       = 0.85 // of the capacity
	recoverSpan   = 30   // seconds
	recoverShare  = 0.9
	momentSpan    = 10 // seconds
	violationsMax = 20 // kept; all are counted by the last of them
)

// A meter turns what happens into a Result.
//
// Owned by its run.
type meter struct {
	s       *Scenario
	r       *Result
	slo     float64
	all     histogram // latencies of the admitted requests
	good    []int32   // by second of arrival
	best    []float32 // that could have been good
	longest float64   // wait in this second
	isOver  bool      // this second is one of overload
	k       int       // the second; negative before the start
	before  Result    // when the moment began
	moment  IntervalRates
}

func newMeter(s *Scenario) meter {
	n := s.Demand.Seconds()
	return meter{s: s, r: &Result{Seconds: n}, slo: s.SLO(), good: make([]int32, n), best: make([]float32, n),
		k: -1}
}

// second begins a second with so many first requests.
func (m *meter) second(k, first int, rate float64) {
	m.close()
	m.k, m.longest, m.isOver = k, 0, false
	m.r.First += first
	t := float64(k)
	demand, capacity := m.s.Demand.second(k), m.s.Target.Capacity(t)
	m.best[k] = float32(min(demand, capacity) * (1 - m.s.Target.stage(t).Errors))
	if rate > 0 && demand > 0 {
		if need := min(demand, capacity); rate < need {
			m.r.BelowNeed += (need - rate) / need
			m.r.BelowNeedTime++
		}
		if rate > capacity {
			m.r.AboveCapacity += (rate - capacity) / capacity
			m.r.AboveCapacityTime++
		}
	}
	if m.s.Record {
		m.record(k, demand, capacity, rate)
	}
}

func (m *meter) close() {
	if m.k < 0 {
		return
	}
	if m.isOver {
		m.r.Overload++
	}
	m.r.QueueArea += max(0, m.longest-m.slo)
	m.moment.Wait = max(m.moment.Wait, m.longest)
}

func (m *meter) record(k int, demand, capacity, rate float64) {
	if k%momentSpan == 0 {
		m.flush()
		m.moment, m.before = IntervalRates{At: float64(k)}, *m.r
	}
	m.moment.Demand += demand / momentSpan
	m.moment.Capacity, m.moment.Limit = capacity, rate
}

func (m *meter) flush() {
	if m.moment.Capacity == 0 {
		return
	}
	r, b := m.r, &m.before
	m.moment.Offered = float64(r.Offered-b.Offered) / momentSpan
	m.moment.Good = float64(r.Good-b.Good) / momentSpan
	r.Timeline = append(r.Timeline, m.moment)
}

func (m *meter) offered(low bool) {
	m.r.Offered++
	if low {
		m.r.OfferedLow++
	}
}

func (m *meter) rejected(low, needless bool) {
	m.offered(low)
	m.r.Rejected++
	if low {
		m.r.RejectedLow++
	}
	if needless {
		m.r.Needless++
	}
}

// over counts a request that the limiter has let through, with its latency.
func (m *meter) over(v *visit, latency float64, good bool) {
	m.offered(v.low)
	switch v.outcome {
	case gated:
		m.r.Gated++
		if v.low {
			m.r.RejectedLow++
		}
		return
	case shed:
		m.r.Shed++
	case timedOut:
		m.r.TimedOut++
	case failed:
		m.r.Failed++
		m.r.Answered++
	default:
		m.r.Answered++
	}
	if v.outcome != shed {
		m.all.add(latency)
		m.longest = max(m.longest, v.wait)
	}
	if v.wait > m.slo {
		m.isOver = true
	}
	if good {
		m.r.Good++
		m.good[min(int(v.at), len(m.good)-1)]++
	}
}

// changed counts the change of the limit from old to rate.
func (m *meter) changed(old limit.Config, rate float64) {
	if m.k < 0 { // the initial limit
		return
	}
	m.r.Updates++
	before, err := limit.New(old)
	if err != nil || before.Rate() == 0 || rate == 0 {
		return
	}
	m.r.Variation += math.Abs(math.Log(rate / before.Rate()))
}

// violation records a recommendation that crosses a guard rail of the proxy.
func (m *meter) violation(now float64, what string) {
	if len(m.r.Violations) < violationsMax {
		m.r.Violations = append(m.r.Violations, fmt.Sprintf("at %.0f s: %s", now, what))
	}
}

func (m *meter) end() *Result {
	m.close()
	if m.s.Record {
		m.flush()
	}
	r := m.r
	r.P95, r.P99 = m.all.quantile(.95), m.all.quantile(.99)
	n := float64(max(1, r.Seconds))
	r.BelowNeed /= n
	r.BelowNeedTime /= n
	r.AboveCapacity /= n
	r.AboveCapacityTime /= n
	r.Recovery = m.recovery()
	return r
}

// recovery returns the slowest recovery after the start and after each stage that differs
// much from the previous one.
func (m *meter) recovery() float64 {
	slowest := float64(m.recovered(0))
	last := Stage{Factor: 1}
	for _, s := range m.s.Target.Stages {
		if math.Abs(math.Log(s.Factor/last.Factor)) > 0.1 || s.Errors != last.Errors {
			slowest = max(slowest, float64(m.recovered(int(s.From))))
		}
		last = s
	}
	return slowest
}

func (m *meter) recovered(from int) int {
	var good, best float64
	for k := from; k < len(m.good); k++ {
		good += float64(m.good[k])
		best += float64(m.best[k])
		if k-from < recoverSpan-1 {
			continue
		}
		if good >= recoverShare*best {
			return k - from - recoverSpan + 1
		}
		good -= float64(m.good[k-recoverSpan+1])
		best -= float64(m.best[k-recoverSpan+1])
	}
	return len(m.good) - from
}

// A histogram counts spans of seconds by the microsecond, to two digits. The zero value is
// empty.
type histogram struct{ counts *hdrhistogram.Histogram }

// spanMax is the longest span in microseconds. Longer ones count as this.
const spanMax = 32e6

func (h *histogram) add(seconds float64) {
	if h.counts == nil {
		h.counts = hdrhistogram.New(1, spanMax, 2)
	}
	_ = h.counts.RecordValue(int64(min(seconds*1e6, spanMax))) // fails only above spanMax
}

// quantile returns a quantile of the spans; 0 if there are none.
func (h *histogram) quantile(share float64) float64 {
	if h.counts == nil {
		return 0
	}
	return float64(h.counts.ValueAtQuantile(100*share)) / 1e6
}
