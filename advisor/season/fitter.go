package season

import (
	"math"
	"slices"
	"time"

	"weir/advisor/fit"
)

// phaseStep is how finely the time of the week is told apart while fitting, in
// seconds: slots of one and five minutes are exact, others nearly.
const phaseStep = 30.0

// fitter is one call of Fit.
type fitter struct {
	layout
	d      *data
	m      *Model
	center float64   // mean of z, taken out
	z      []float64 // log(rate + c) − center
	u      []float64 // time in the window
	piece  []int32   // of the trend, per row
	phase  []int32   // of the week, per row
	weekly []float64 // columns that repeat every week, per phase
	phases int
	extra  []extra // columns of year and events that are not 0

	base     []float64 // weights by age and cover
	w        []float64 // and by Huber
	residual []float64
	sums     sums
	gram     *fit.Gram
}

// An extra is a value of a column that neither repeats weekly nor is a knot.
type extra struct {
	row, col int32
	value    float64
}

func newFitter(d *data, m *Model, shifts []time.Time) *fitter {
	n := len(d.at)
	f := &fitter{
		layout: newLayout(d, m, shifts), d: d, m: m,
		z: make([]float64, n), u: make([]float64, n), piece: make([]int32, n), phase: make([]int32, n),
		base: make([]float64, n), w: make([]float64, n), residual: make([]float64, n),
	}
	total, mean := 0.0, 0.0
	last, half := d.at[n-1], max(halfLife.Seconds(), halfLifeShare*m.span)
	for i, at := range d.at {
		f.z[i] = math.Log(min(math.MaxFloat64, d.rate[i]+m.offset))
		f.base[i] = d.weight[i] * math.Exp2(-(last-at)/half)
		total += f.base[i]
		mean += f.base[i] * f.z[i]
		if m.span > 0 {
			f.u[i] = (at - m.first) / m.span
		}
		f.piece[i] = int32(f.layout.piece(f.u[i]))
	}
	f.center = mean / total
	for i := range f.z {
		f.z[i] -= f.center
	}
	copy(f.w, f.base)
	f.setPhases()
	f.setExtras()
	f.sums = newSums(f)
	f.gram = fit.NewGram(f.columns())
	return f
}

// setPhases finds the time of the week of every row, and the columns for each.
func (f *fitter) setPhases() {
	index := make(map[int32]int32)
	clock := f.m.clock
	for i, at := range f.d.at {
		key := int32(math.Floor(clock.phase(at)/phaseStep + 0.5))
		p, ok := index[key]
		if !ok {
			p = int32(f.phases)
			index[key] = p
			f.phases++
			f.weekly = f.appendWeekly(f.weekly, math.Mod(float64(key)*phaseStep, week))
		}
		f.phase[i] = p
	}
}

// setExtras lists the values of the year's and the events' columns, by row and
// column.
func (f *fitter) setExtras() {
	first := f.layout.weekly() + len(f.knots)
	var x []float64
	effects := make([]float64, len(f.names))
	for i, at := range f.d.at {
		if f.Year > 0 {
			x = appendFourier(x[:0], f.m.clock.local(at)/year, f.Year)
			for j, v := range x {
				f.extra = append(f.extra, extra{int32(i), int32(first + j), v})
			}
		}
		clear(effects)
		f.m.events.each(at, func(name int, value float64) { effects[name] += value })
		for name, value := range effects {
			if value != 0 {
				f.extra = append(f.extra, extra{int32(i), int32(first + 2*f.Year + name), value})
			}
		}
	}
}

// run alternates the regression and the weights of rows that do not fit. The
// regressions before the last need not be exact.
func (f *fitter) run() ([]float64, error) {
	prior := f.prior()
	var theta []float64
	for pass := 0; ; pass++ {
		f.fillGram()
		s, err := f.gram.Solve(prior, fit.Options{Start: theta, Rough: true})
		if err != nil {
			return nil, err
		}
		theta = s.Theta
		f.setResiduals(theta)
		if f.reweigh() < huberSettled || pass == huberPasses {
			break
		}
	}
	f.fillGram()
	s, err := f.gram.Solve(prior, fit.Options{Start: theta})
	if err != nil {
		return nil, err
	}
	f.setResiduals(s.Theta)
	f.m.noise, f.m.scale = s.Noise, f.spread()
	return s.Theta, nil
}

// spread returns the robust scale of the residuals, 1.4826 MAD.
func (f *fitter) spread() float64 {
	size := make([]float64, len(f.residual))
	for i, r := range f.residual {
		size[i] = math.Abs(r)
	}
	return 1.4826 * median(size)
}

// reweigh sets the weights by the residuals and returns their mean change.
func (f *fitter) reweigh() float64 {
	bound := huberBound * f.spread()
	change, total := 0.0, 0.0
	for i, r := range f.residual {
		w := f.base[i]
		if size := math.Abs(r); bound > 0 && size > bound {
			w *= bound / size
		}
		change += math.Abs(w - f.w[i])
		total += f.base[i]
		f.w[i] = w
	}
	return change / total
}

// setResiduals sets z − m(t) of all rows.
func (f *fitter) setResiduals(theta []float64) {
	n := f.layout.weekly()
	season := make([]float64, f.phases)
	for p := range season {
		for j, x := range f.weekly[p*n : (p+1)*n] {
			season[p] += x * theta[j]
		}
	}
	line := f.lines(theta[n : n+len(f.knots)])
	for i, z := range f.z {
		l := line[f.piece[i]]
		f.residual[i] = z - season[f.phase[i]] - (l.level + l.slope*f.u[i])
	}
	for _, e := range f.extra {
		f.residual[e.row] -= e.value * theta[e.col]
	}
}

// A line is a piece of the trend: level + slope·u.
type line struct{ level, slope float64 }

// lines returns the pieces of the trend with these coefficients of the knots.
func (l layout) lines(theta []float64) []line {
	at := make([]line, len(l.pieces))
	for p, begin := range l.pieces {
		for i, k := range l.knots {
			switch {
			case k.at > begin:
			case k.step:
				at[p].level += theta[i]
			default:
				at[p].level -= theta[i] * k.at
				at[p].slope += theta[i]
			}
		}
	}
	return slices.Clip(at)
}
