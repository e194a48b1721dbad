package mixture

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// leastMean is where densities take a mean that rounding has put on an edge of its range, or so near that
// derivatives would leave the range of numbers.
const leastMean = 1e-90

// logLess returns log(a/b) − (a − b)/b of numbers above 0, at most 0, without the cancellation next to a = b.
func logLess(a, b float64) float64 {
	e := (a - b) / b
	if e < -0.5 || math.IsInf(e, 1) { // the ratio may be beyond the range of numbers
		return math.Log(a) - math.Log(b) - e
	}
	return math.Log1p(e) - e
}

// stirlingFrom is where the series of [stirling], [digammaLess] and [trigammaLess] have all digits but the last.
const stirlingFrom = 10

// stirling returns log Γ(x) − ((x − ½)·log x − x + ½·log 2π) for x ≥ stirlingFrom: Σ B_2n/(2n(2n−1)x^(2n−1)).
func stirling(x float64) float64 {
	r := 1 / (x * x)
	return (1./12 - r*(1./360-r*(1./1260-r*(1./1680-r*(1./1188-r*691./360360))))) / x
}

// digammaLess returns ψ(x) − log x for x ≥ stirlingFrom: −1/(2x) − Σ B_2n/(2n·x^2n).
func digammaLess(x float64) float64 {
	r := 1 / (x * x)
	return -0.5/x - r*(1./12-r*(1./120-r*(1./252-r*(1./240-r*(1./132-r*691./32760)))))
}

// trigammaLess returns ψ′(x) − 1/x for x ≥ stirlingFrom: 1/(2x²) + Σ B_2n/x^(2n+1).
func trigammaLess(x float64) float64 {
	r := 1 / (x * x)
	return r*0.5 + r/x*(1./6-r*(1./30-r*(1./42-r*(1./30-r*(5./66-r*691./2730)))))
}

// logFactorials are log y! of y from 0.
var logFactorials = func() (all [tabled]float64) {
	for y := range all {
		all[y], _ = math.Lgamma(float64(y + 1))
	}
	return all
}()

// logFactorial returns log y! of a count y.
func logFactorial(y float64) float64 {
	if y >= 0 && y < tabled {
		return logFactorials[int(y)]
	}
	lg, _ := math.Lgamma(y + 1)
	return lg
}

// rising is log Γ(θ+y) − log Γ(θ) − y·log θ, of counts y and θ > 0, with its first two derivatives by θ, which tend to
// 0 as θ grows: where the negative binomial is all but Poisson nothing of it is lost by cancellation.
func rising(theta, y float64) (value, first, second float64) {
	if y == 0 {
		return 0, 0, 0
	}
	if y <= mostTerms {
		product := 1.0 // of 1 + j/θ
		for j := 1.0; j < y; j++ {
			product *= 1 + j/theta
			first -= j / (theta * (theta + j)) // 1/(θ+j) − 1/θ
			second += j * (2*theta + j) / (theta * theta * (theta + j) * (theta + j))
		}
		return math.Log(product), first, second
	}
	// Γ(θ+y)/Γ(θ) = Γ(x+y)/Γ(x)·Π_j (θ+j)/(θ+y+j), x = θ + shift.
	x, upto := theta, 0.0
	for ; x < stirlingFrom; x++ {
		a, b := x, x+y
		upto += math.Log(a) - math.Log(b)
		first += y / (a * b) // 1/a − 1/b
		second -= y / (a * b) * (1/a + 1/b)
	}
	z := x + y
	// (z−½)·log z − z − (x−½)·log x + x − y·log x, and y·log(x/θ) for the shift.
	value = upto + (z-0.5)*math.Log1p(y/x) - y + (stirling(z) - stirling(x))
	if x > theta {
		value += y * math.Log(x/theta)
	}
	first += math.Log1p(y/x) + (digammaLess(z) - digammaLess(x)) - y/theta
	second += -y/(x*z) + (trigammaLess(z) - trigammaLess(x)) + y/theta/theta
	return value, first, second
}

// rise is [rising] at a count.
type rise struct{ value, first, second float64 }

// rises are those of whole numbers at one θ; of small ones each is made once.
type rises struct {
	theta float64
	known [tabled]bool
	small [tabled]rise
}

// tabled is where counts are no longer small.
const tabled = 64

func (r *rises) at(y float64) rise {
	if !(y >= 0 && y < tabled) {
		value, first, second := rising(r.theta, y)
		return rise{value, first, second}
	}
	i := int(y)
	if !r.known[i] {
		r.known[i] = true
		r.small[i].value, r.small[i].first, r.small[i].second = rising(r.theta, y)
	}
	return r.small[i]
}

// mostTerms is how many terms of a sum are fewer steps than the series.
const mostTerms = 16

// largeBeta is from where on both parameters of an incomplete beta function are large.
const largeBeta = 1e4

// incompleteBeta returns I_x(a, b); rest is 1 − x. Where a and b are large the continued fractions of the library lose
// all digits near the mean. There it is Temme's uniform expansion with its first term (DLMF 8.18.9), which leaves an
// error of about 1/(a+b): with
//
//	x₀ = a/(a+b),  −η²/2 = x₀·log(x/x₀) + (1−x₀)·log((1−x)/(1−x₀)),  η of the sign of x − x₀,
//	I = Φ(η·√(a+b)) + exp(−(a+b)·η²/2)/√(2π(a+b))·(1/η − √(x₀(1−x₀))/(x − x₀))
func incompleteBeta(a, b, x, rest float64) float64 {
	if !(a >= largeBeta && b >= largeBeta && x > 0 && rest > 0) {
		return mathext.RegIncBeta(a, b, x)
	}
	sum := a + b
	at, away := a/sum, b/sum // x₀ and 1 − x₀
	from := (b*x - a*rest) / sum
	half := at*logLess(x, at) + away*logLess(rest, away) // −η²/2
	eta := math.Copysign(math.Sqrt(max(0, -2*half)), from)
	sd := math.Sqrt(at * away)
	first := (1 - 2*at) / (3 * sd) // its limit at the mean
	if math.Abs(eta) > 1e-5 {      // below it the difference has few digits
		first = 1/eta - sd/from
	}
	v := distuv.UnitNormal.CDF(eta*math.Sqrt(sum)) + math.Exp(sum*half)/math.Sqrt(2*math.Pi*sum)*first
	return min(max(v, 0), 1)
}

// leastWhole returns the least whole y ≥ 0 with cdf(y) ≥ q, at most most, looking first about a guess.
func leastWhole(q, guess, step, most float64, cdf func(y float64) float64) float64 {
	lo, hi := -1.0, math.Floor(min(max(guess, 0), most))
	step = math.Floor(max(step, 1))
	if cdf(hi) >= q {
		for lo = hi - step; lo >= 0 && cdf(lo) >= q; lo = hi - step {
			hi, step = lo, 2*step
		}
		lo = max(lo, -1)
	} else {
		for lo = hi; hi < most; lo = hi {
			if hi, step = min(hi+step, most), 2*step; cdf(hi) >= q {
				break
			}
		}
	}
	for {
		y := math.Floor(lo/2 + hi/2)
		if !(y > lo && y < hi) {
			return hi
		}
		if cdf(y) >= q {
			hi = y
		} else {
			lo = y
		}
	}
}
