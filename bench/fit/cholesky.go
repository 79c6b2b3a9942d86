package fit

import "math"

// pivotMin is the share of a column's own square that must be left after the
// columns before it are taken out; with less it is called collinear.
const pivotMin = 1e-13

// cholesky replaces the lower triangle of a, n×n with rows of n, by its factor
// L with a = LL'. A column that is collinear with the ones before it is marked
// by a diagonal of +Inf, so that solve gives it the coefficient 0.
func cholesky(a []float64, n int) {
	for i := range n {
		ri := a[i*n : i*n+i+1]
		for j := range i {
			rj := a[j*n : j*n+j+1]
			ri[j] = (ri[j] - dot(ri[:j], rj[:j])) / rj[j]
		}
		own := ri[i]
		left := own - dot(ri[:i], ri[:i])
		if !(left > pivotMin*own) {
			ri[i] = math.Inf(1)
			continue
		}
		ri[i] = math.Sqrt(left)
	}
}

// solve replaces b by the solution x of LL'x = b.
func solve(l []float64, n int, b []float64) {
	for i := range n {
		row := l[i*n : i*n+i+1]
		b[i] = (b[i] - dot(row[:i], b[:i])) / row[i]
	}
	for i := n - 1; i >= 0; i-- {
		row := l[i*n : i*n+i+1]
		b[i] /= row[i]
		v := b[i]
		for j, r := range row[:i] {
			b[j] -= r * v
		}
	}
}

// dot returns the inner product, in two sums so that the additions overlap.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}
