package policy

import "math"

// Capacity is what is believed of the highest rate at which the target's p95 is
// still good, in requests/s. All zero: nothing is known.
type Capacity struct {
	Q05        float64 `json:"q05"`
	Q20        float64 `json:"q20"`
	Q50        float64 `json:"q50"`
	Q80        float64 `json:"q80"`
	Q95        float64 `json:"q95"`
	Confidence float64 `json:"confidence"` // 1 - (q80-q20)/q50, at least 0
}

// odds is the belief about one number: the highest rate of work, in requests/s, at
// which the p95 is still good. mass[i] is at ln = first + (i - cells) × cellWidth.
type odds struct {
	first float64
	mass  [2 * cells]float64
}

// sum sums the belief up: every cell says C × u at which f(u) reaches the SLO.
func (p *Policy) sum() *odds {
	b := &p.st.Belief
	if b.Weights == nil {
		return nil
	}
	o := &odds{first: b.First}
	for k, w := range b.Weights {
		at := p.laws.loadAt(k, p.ratio())/cellWidth + cells
		first := int(math.Floor(at))
		part := at - float64(first)
		for i, v := range w {
			if j := first + i; j >= 0 {
				o.mass[j] += v * (1 - part)
				o.mass[min(j+1, len(o.mass)-1)] += v * part
			}
		}
	}
	return o
}

// rate is what place i of mass stands for.
func (o *odds) rate(place float64) float64 {
	return math.Exp(o.first + (place-cells)*cellWidth)
}

// capacity returns the quantiles.
func (o *odds) capacity() Capacity {
	if o == nil {
		return Capacity{}
	}
	var q [5]float64
	sum, next := 0.0, 0
	for i, v := range o.mass {
		for next < len(q) && sum+v >= quantiles[next] {
			inside := 0.5
			if v > 0 {
				inside = (quantiles[next] - sum) / v
			}
			q[next] = o.rate(float64(i) + inside - 0.5)
			next++
		}
		sum += v
	}
	for ; next < len(q); next++ {
		q[next] = o.rate(2 * cells)
	}
	return Capacity{q[0], q[1], q[2], q[3], q[4], max(0, 1-(q[3]-q[1])/q[2])}
}

var quantiles = [...]float64{0.05, 0.2, 0.5, 0.8, 0.95}

// best is the rate of work, up to most, that promises the most good answers:
//
//	rate × (1 − cost × E[min(1, depth/collapse)])
//
// where depth is by how much the rate exceeds what the target takes. It is not the
// 20 % quantile that linear costs would ask for: a little too little costs that
// little, but too much lets the queue grow, which takes all answers with it and
// the time to work it off. So it stays below a narrow belief by some deviations.
// Into a wide belief it goes by larger steps, because there an overload is met
// once, and what was gained by then stays.
func (o *odds) best(most, confidence float64) float64 {
	cost := overloadCost / (1 + patience*(1-confidence))
	top, at := 0.0, most
	var below [2*cells + 1]float64
	for i, v := range o.mass {
		below[i+1] = below[i] + v
		rate := o.rate(float64(i)+0.5) * leeway
		if rate > most {
			break
		}
		depth := 0.0
		for j := max(0, i+1-collapse); j <= i; j++ {
			depth += below[j+1] / collapse
		}
		if value := rate * (1 - cost*depth); value > top {
			top, at = value, rate
		}
	}
	return at
}

const (
	overloadCost = 2.5   // what an overload costs, in updates' worth of good answers
	collapse     = 5     // cells beyond the knee at which it costs that
	leeway       = 1.005 // × the rate at the SLO is not an overload yet
	patience     = 4.0   // updates that a gain lasts while nothing is known
)
