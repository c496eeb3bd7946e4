package fit

import "math"

// normal is the likelihood of what is below z, in standard deviations.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// skewed is how far beyond a limit is used, in deviations of a normal variable
// as likely to be beyond: few requests of others vary as a Poisson variable
// does, more often far up than down (by Wilson and Hilferty, of a shifted gamma
// variable).
func skewed(over, vary, blur float64) float64 {
	square := vary + blur*blur
	sigma := math.Sqrt(square)
	skew := vary / (square * sigma)
	if skew < 0.02 {
		return over / sigma
	}
	x := 1 - skew/2*over/sigma
	if x <= 0 {
		return 40 // never so few
	}
	return -(6/skew*(math.Cbrt(x)-1) + skew/6)
}

// atMost is the mean and variance of the smaller of what is normal and n.
func atMost(mean, vary, n float64) (m, v float64) {
	s := math.Sqrt(vary)
	if mean+4*s < n {
		return mean, vary
	}
	if s < 1e-3 {
		return min(mean, n), vary
	}
	a := (n - mean) / s
	q, f := normal(a), math.Exp(-a*a/2)/math.Sqrt(2*math.Pi)
	m = mean*q - s*f + n*(1-q)
	square := (mean*mean+vary)*q - s*(mean+n)*f + n*n*(1-q)
	return m, max(0, square-m*m)
}
