package season

import "weir/advisor/fit"

// sums are what the regression needs to know of the rows, summed by phase of the
// week and by piece of the trend.
type sums struct {
	n            int       // columns that repeat weekly
	phaseW       []float64 // per phase: Σw
	phaseZ       []float64 // per phase: mean of z
	level, slope []float64 // per piece and column: Σw x, Σw u x
	moments      []moments // per piece
}

// moments are the sums of a piece.
type moments struct{ w, wu, wuu, wz, wuz float64 }

func newSums(f *fitter) sums {
	n, p := f.layout.weekly(), len(f.pieces)
	return sums{
		n: n, phaseW: make([]float64, f.phases), phaseZ: make([]float64, f.phases),
		level: make([]float64, n*p), slope: make([]float64, n*p), moments: make([]moments, p),
	}
}

// fillGram makes the Gram for the present weights.
func (f *fitter) fillGram() {
	g, s := f.gram, &f.sums
	g.Reset()
	f.sum()
	f.fillWeekly()
	n := s.n
	for i, k := range f.knots {
		row := g.XX[(n+i)*g.N:]
		for p, begin := range f.pieces {
			if begin < k.at {
				continue
			}
			level, slope := s.level[p*n:(p+1)*n], s.slope[p*n:(p+1)*n]
			for j := range n {
				if k.step {
					row[j] += level[j]
				} else {
					row[j] += slope[j] - k.at*level[j]
				}
			}
			m := s.moments[p]
			for j, other := range f.knots[:i+1] {
				if begin >= other.at {
					row[n+j] += m.product(k, other)
				}
			}
			if k.step {
				g.XY[n+i] += m.wz
			} else {
				g.XY[n+i] += m.wuz - k.at*m.wz
			}
		}
	}
	f.fillExtras()
}

// product returns Σw of two knots' columns over a piece that both have begun.
func (m moments) product(a, b knot) float64 {
	switch {
	case a.step && b.step:
		return m.w
	case a.step:
		return m.wu - b.at*m.w
	case b.step:
		return m.wu - a.at*m.w
	}
	return m.wuu - (a.at+b.at)*m.wu + a.at*b.at*m.w
}

// sum adds up the rows.
func (f *fitter) sum() {
	s, n := &f.sums, f.sums.n
	clear(s.phaseW)
	clear(s.phaseZ)
	clear(s.level)
	clear(s.slope)
	clear(s.moments)
	f.gram.W, f.gram.YY = 0, 0
	for i, w := range f.w {
		u, z := f.u[i], f.z[i]
		p, phase := int(f.piece[i]), int(f.phase[i])
		s.phaseW[phase] += w
		s.phaseZ[phase] += w * z
		m := &s.moments[p]
		m.w += w
		m.wu += w * u
		m.wuu += w * u * u
		m.wz += w * z
		m.wuz += w * u * z
		level, slope, x := s.level[p*n:(p+1)*n], s.slope[p*n:(p+1)*n], f.weekly[phase*n:(phase+1)*n]
		for j, v := range x {
			level[j] += w * v
			slope[j] += w * u * v
		}
	}
	for i, w := range s.phaseW {
		if w > 0 {
			s.phaseZ[i] /= w
		}
	}
}

// fillWeekly fills in the products of the columns that repeat weekly.
func (f *fitter) fillWeekly() {
	g, s, n := f.gram, &f.sums, f.sums.n
	part := fit.NewGram(n)
	part.Add(f.weekly, s.phaseZ, s.phaseW)
	for i := range n {
		copy(g.XX[i*g.N:i*g.N+i+1], part.XX[i*n:i*n+i+1])
	}
	copy(g.XY, part.XY)
	g.W, g.YY = part.W, 0
	for i, w := range f.w {
		g.YY += w * f.z[i] * f.z[i]
	}
}

// fillExtras fills in the products of the year's and the events' columns, row
// by row.
func (f *fitter) fillExtras() {
	g, n := f.gram, f.sums.n
	for from := 0; from < len(f.extra); {
		row := f.extra[from].row
		to := from
		for to < len(f.extra) && f.extra[to].row == row {
			to++
		}
		x := f.weekly[int(f.phase[row])*n : (int(f.phase[row])+1)*n]
		for i, e := range f.extra[from:to] {
			a := f.w[row] * e.value
			out := g.XX[int(e.col)*g.N:]
			for j, v := range x {
				out[j] += a * v
			}
			for j, k := range f.knots {
				if f.pieces[f.piece[row]] < k.at {
					continue
				}
				if k.step {
					out[n+j] += a
				} else {
					out[n+j] += a * (f.u[row] - k.at)
				}
			}
			for _, other := range f.extra[from : from+i+1] {
				out[other.col] += a * other.value
			}
			g.XY[e.col] += a * f.z[row]
		}
		from = to
	}
}
