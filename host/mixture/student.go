package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// StudentT is the t law of location m, scale σ and ν degrees of freedom: with e = (y − m)/σ
//
//	log f = log Γ((ν+1)/2) − log Γ(ν/2) − ½·log(νπ) − log σ − (ν+1)/2·log(1 + e²/ν)
type StudentT struct{}

// Name returns "student-t".
func (StudentT) Name() string { return "student-t" }

var ownStudent = []OwnParameter{
	{Name: Sigma, Start: 1, Most: math.Inf(1)},
	{Name: "dof", Start: 10, Least: 1, Most: 1000, Reciprocal: true},
}

// Own returns σ and ν, from 1, Cauchy's law, to 1000, all but the normal one.
func (StudentT) Own() []OwnParameter { return ownStudent }

// Domain is all numbers.
func (StudentT) Domain() Domain { return Gaussian{}.Domain() }

// farStudent is where |e| is so large that 1 + e²/ν is e²/ν to the last digit.
const farStudent = 1e100

// LogDensity implements [Density].
func (StudentT) LogDensity(dst, scores, y, mean, psi []float64) {
	s, nu := psi[0], psi[1]
	up, _ := math.Lgamma((nu + 1) / 2)
	down, _ := math.Lgamma(nu / 2)
	constant := up - down - math.Log(nu*math.Pi)/2 - math.Log(s)
	for t, v := range y {
		e := math.Abs(v-mean[t]) / s
		log := 0.0
		if e > farStudent {
			log = 2*(math.Log(math.Abs(v/2-mean[t]/2))+math.Ln2-math.Log(s)) - math.Log(nu)
		} else {
			log = math.Log1p(e * e / nu)
		}
		dst[t] = scores[t] + (constant - (nu+1)/2*log)
	}
}

// Derive implements [Density].
func (StudentT) Derive(d Terms, y, mean, psi []float64) {
	s, nu := psi[0], psi[1]
	digamma := mathext.Digamma((nu+1)/2) - mathext.Digamma(nu/2)
	trigamma := mathext.Zeta(2, (nu+1)/2) - mathext.Zeta(2, nu/2)
	for t, v := range y {
		e := min(max((v-mean[t])/s, -farStudent), farStudent)
		e2 := e * e
		a := nu + e2
		w, share := (nu+1)/a, e2/a
		d.Score[t] = w * e / s
		d.Information[t] = w * (nu - e2) / a / s / s
		d.Expected[t] = (nu + 1) / ((nu + 3) * s * s)
		byNu := (digamma - 1/nu - math.Log1p(e2/nu) + (nu+1)*share/nu) / 2
		byNu2 := (trigamma/2 + 1/(nu*nu) + 2*share/nu - (nu+1)*share*(2*nu+e2)/a/(nu*nu)) / 2
		d.OwnScore[0][t], d.OwnScore[1][t] = (nu+1)*share-1, nu*byNu
		d.Cross[0][t], d.Cross[1][t] = 2*nu*w*e/a/s, -nu*e*((e2-1)/a)/a/s
		d.OwnInformation[OwnAt(0, 0)][t] = 2 * nu * w * share
		d.OwnInformation[OwnAt(0, 1)][t] = -nu * share * ((e2 - 1) / a)
		d.OwnInformation[OwnAt(1, 1)][t] = -nu*byNu - nu*nu*byNu2
	}
}

// CDF implements [Law].
func (StudentT) CDF(y, mean float64, psi []float64) float64 {
	return distuv.StudentsT{Mu: mean, Sigma: psi[0], Nu: psi[1]}.CDF(y)
}

// Quantile implements [Law].
func (StudentT) Quantile(q, mean float64, psi []float64) float64 {
	return distuv.StudentsT{Mu: mean, Sigma: psi[0], Nu: psi[1]}.Quantile(q)
}
