package mixturetest

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/mixture"
)

// Student is the t law of mean m, scale s and ν degrees of freedom: with e = (y − m)/s
//
//	log f = log Γ((ν+1)/2) − log Γ(ν/2) − ½·log(νπ) − log s − (ν+1)/2·log(1 + e²/ν)
type Student struct{}

// Name returns "student".
func (Student) Name() string { return "student" }

var studentOwn = []mixture.OwnParameter{
	{Name: "sigma", Start: 1, Most: math.Inf(1)},
	{Name: "df", Start: 10, Least: 1, Most: 1000},
}

// Own returns s and ν, from 1 to 1000.
func (Student) Own() []mixture.OwnParameter { return studentOwn }

// Domain is all numbers.
func (Student) Domain() mixture.Domain { return mixture.Gaussian{}.Domain() }

// LogDensity implements [mixture.Density].
func (Student) LogDensity(dst, scores, y, mean, psi []float64) {
	s, nu := psi[0], psi[1]
	up, _ := math.Lgamma((nu + 1) / 2)
	down, _ := math.Lgamma(nu / 2)
	constant := up - down - math.Log(nu*math.Pi)/2 - math.Log(s)
	for t, v := range y {
		e := (v - mean[t]) / s
		dst[t] = scores[t] + constant - (nu+1)/2*math.Log1p(e*e/nu)
	}
}

// Derive implements [mixture.Density].
func (Student) Derive(d mixture.Terms, y, mean, psi []float64) {
	s, nu := psi[0], psi[1]
	digamma := mathext.Digamma((nu+1)/2) - mathext.Digamma(nu/2)
	trigamma := mathext.Zeta(2, (nu+1)/2) - mathext.Zeta(2, nu/2)
	for t, v := range y {
		e := (v - mean[t]) / s
		e2 := e * e
		a := nu + e2
		w := (nu + 1) / a
		d.Score[t] = w * e / s
		d.Information[t] = (nu + 1) * (nu - e2) / (a * a * s * s)
		d.Expected[t] = (nu + 1) / ((nu + 3) * s * s)
		byNu := (digamma - 1/nu - math.Log1p(e2/nu) + w*e2/nu) / 2
		byNu2 := (trigamma/2 + 1/(nu*nu) + 2*e2/(nu*a) - w*e2*(2*nu+e2)/(nu*nu*a)) / 2
		d.OwnScore[0][t], d.OwnScore[1][t] = w*e2-1, nu*byNu
		d.Cross[0][t], d.Cross[1][t] = 2*nu*w*e/(s*a), -nu*e*(e2-1)/(s*a*a)
		d.OwnInformation[mixture.OwnAt(0, 0)][t] = 2 * nu * w * e2 / a
		d.OwnInformation[mixture.OwnAt(0, 1)][t] = -nu * e2 * (e2 - 1) / (a * a)
		d.OwnInformation[mixture.OwnAt(1, 1)][t] = -nu*byNu - nu*nu*byNu2
	}
}

// CDF implements [mixture.Law].
func (Student) CDF(y, mean float64, psi []float64) float64 {
	return distuv.StudentsT{Mu: mean, Sigma: psi[0], Nu: psi[1]}.CDF(y)
}

// Quantile implements [mixture.Law].
func (Student) Quantile(q, mean float64, psi []float64) float64 {
	return distuv.StudentsT{Mu: mean, Sigma: psi[0], Nu: psi[1]}.Quantile(q)
}
