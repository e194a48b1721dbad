package specification

import (
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/internal/numeric"
)

// quadraticForms holds the sums of terms and the covariance of one row's, and makes tests of
// them. The first of the blocks are terms that others are adjusted for, the rest those of a test
// each: their ends. The covariance of terms of different tests is not needed, and 0.
type quadraticForms struct {
	cov    *mat.SymDense
	sums   []float64
	n      float64 // rows that the sums are of
	draws  float64 // that the covariance was taken over, less the terms that others were adjusted for
	blocks []int
	steps  []func(terms *mat.Dense) // what was done to the sums, for those of other rows: a column each
	forms  []form
	// along says that forms are wanted along eigenvectors also where nothing is to be left out.
	along bool
	// groups says that the rows are groups: often few, whose terms are sums.
	groups bool
}

// form is one test: of the sums of terms in the directions of the eigenvectors of their covariance.
type form struct {
	name     string
	lo, hi   int
	vectors  mat.Matrix // a column for a direction, over the root of its variance
	z        []float64  // the sums in these directions, of variance 1
	skewness []float64  // of one row's terms in them, of variance 1: E z³; nil where it is not known
	kurtosis []float64  // E z⁴
	features []int      // of the term that tells most, where it is of two
	n, draws float64
	groups   bool
}

// omit makes n of the terms 0.
func (q *quadraticForms) omit(from, n int) {
	for i := from; i < from+n; i++ {
		q.sums[i] = 0
		for j := range q.sums {
			q.cov.SetSym(i, j, 0)
		}
	}
	q.then(func(terms *mat.Dense) {
		for i := from; i < from+n; i++ {
			clear(terms.RawRowView(i))
		}
	})
}

func (q *quadraticForms) then(step func(terms *mat.Dense)) { q.steps = append(q.steps, step) }

// until returns the end of the terms whose covariance with term i is known.
func (q *quadraticForms) until(i int) int {
	if i < q.blocks[0] {
		return len(q.sums)
	}
	for _, end := range q.blocks {
		if i < end {
			return end
		}
	}
	panic("specification: no such term")
}

// standardise brings the terms to unit variance; those that are always 0 stay.
func (q *quadraticForms) standardise() {
	sd := make([]float64, len(q.sums))
	for i := range sd {
		if sd[i] = math.Sqrt(q.cov.At(i, i)); !(sd[i] > 0) {
			sd[i] = 1
		}
		q.sums[i] /= sd[i]
	}
	for i := range sd {
		for j := i; j < q.until(i); j++ {
			q.cov.SetSym(i, j, q.cov.At(i, j)/(sd[i]*sd[j]))
		}
	}
	q.then(func(terms *mat.Dense) {
		terms.Apply(func(i, _ int, v float64) float64 { return v / sd[i] }, terms)
	})
}

// project takes off all later terms what the terms from lo to hi explain, and
// widens the rest for having been estimated from so many draws. Solve returns V⁻¹·cross, or nil: [ridged] or [ranked].
func (q *quadraticForms) project(lo, hi int, solve func(v *mat.SymDense, cross *mat.Dense) *mat.Dense) {
	size, m := len(q.sums), hi-lo
	if m == 0 || hi == size {
		return
	}
	known := mat.NewSymDense(m, nil)
	cross := mat.NewDense(m, size-hi, nil)
	for i := range m {
		for j := i; j < m; j++ {
			known.SetSym(i, j, q.cov.At(lo+i, lo+j))
		}
		for j := hi; j < size; j++ {
			cross.Set(i, j-hi, q.cov.At(lo+i, j))
		}
	}
	coef := solve(known, cross)
	if coef == nil {
		return
	}
	step := func(terms *mat.Dense) {
		_, columns := terms.Dims()
		var taken mat.Dense
		taken.Mul(coef.T(), terms.Slice(lo, hi, 0, columns))
		rest := terms.Slice(hi, size, 0, columns).(*mat.Dense)
		rest.Sub(rest, &taken)
	}
	step(mat.NewDense(size, 1, q.sums))
	q.then(step)
	widen := q.draws / max(q.draws-float64(m), q.draws/2)
	q.draws = max(q.draws-float64(m), q.draws/2)
	for from := hi; from < size; {
		// Terms that others are adjusted for have a covariance with all, those of a test with its own.
		to, end := q.blocks[0], size
		if from >= to {
			to = q.until(from)
			end = to
		}
		var taken mat.Dense
		taken.Mul(cross.Slice(0, m, from-hi, to-hi).T(), coef.Slice(0, m, from-hi, end-hi))
		for i := from; i < to; i++ {
			for j := i; j < end; j++ {
				q.cov.SetSym(i, j, widen*(q.cov.At(i, j)-taken.At(i-from, j-from)))
			}
		}
		from = to
	}
}

// ridge keeps the correlations of collinear scores invertible.
const ridge = 1e-10

// ridged solves for V + ridge·I.
func ridged(v *mat.SymDense, cross *mat.Dense) *mat.Dense {
	for i := range v.SymmetricDim() {
		v.SetSym(i, i, v.At(i, i)+ridge)
	}
	var chol mat.Cholesky
	out := new(mat.Dense)
	if !chol.Factorize(v) || chol.SolveTo(out, cross) != nil {
		return nil
	}
	return out
}

// ranked is ridged where no eigenvalue of V is below rankTolerance, else solves over the eigenvectors of the others: of
// 0/1 targets the scores explain the residuals' shape but for little, which would be taken off a hundredfold.
func ranked(v *mat.SymDense, cross *mat.Dense) *mat.Dense {
	if whole(v) != nil {
		return ridged(v, cross)
	}
	w := eigenvectors(v)
	if w == nil {
		return nil
	}
	var along, out mat.Dense
	along.Mul(w.T(), cross)
	out.Mul(w, &along)
	return &out
}

// test makes that of the terms from lo to hi, if there are any and anything is left of them.
func (q *quadraticForms) test(name string, lo, hi int) {
	if lo == hi {
		return
	}
	f := q.form(lo, hi)
	f.name = name
	q.forms = append(q.forms, f)
}

// worst returns which of the terms from lo to hi says most by itself, from lo on, and its statistic.
func (q *quadraticForms) worst(lo, hi int) (at int, statistic float64) {
	for i := lo; i < hi; i++ {
		if v := q.cov.At(i, i); v >= rankTolerance {
			if s := q.sums[i] * q.sums[i] / (q.n * v); s > statistic {
				at, statistic = i-lo, s
			}
		}
	}
	return at, statistic
}

// name says which features the test of this name tells most of.
func (q *quadraticForms) name(test string, features []int) {
	for i := range q.forms {
		if q.forms[i].name == test {
			q.forms[i].features = features
		}
	}
}

// nameFeatures says which pairs of features the tests of such tell most of, where their terms are of one pair
// each: of the gates' features and of interactions of the first target.
func (q *quadraticForms) nameFeatures(l *layout) {
	if l.pairs < l.d*(l.d+1)/2 {
		return
	}
	pair := func(i int) []int {
		j := 0
		for ; i > j; j++ {
			i -= j + 1
		}
		return []int{i, j}
	}
	interactions := l.at[atInteractions]
	if i, s := q.worst(interactions, interactions+l.pairs); s > 0 {
		q.name(infer.InteractionsTest, pair(i))
	}
	most := 0.0
	of := l.gateGroups + l.gatePairs
	for from := l.at[atGateFeatures]; l.gatePairs == l.pairs && from < l.at[atHeteroscedasticity]; from += of {
		if i, s := q.worst(from+l.gateGroups, from+of); s > most {
			most = s
			q.name(infer.GateFeaturesTest, pair(i))
		}
	}
}

// form takes the terms from lo to hi.
func (q *quadraticForms) form(lo, hi int) form {
	f, m := form{lo: lo, hi: hi, n: q.n, draws: q.draws, groups: q.groups}, hi-lo
	if m == 0 {
		return f
	}
	v := mat.NewSymDense(m, nil)
	for i := range m {
		for j := i; j < m; j++ {
			v.SetSym(i, j, q.cov.At(lo+i, lo+j))
		}
	}
	if f.vectors = whole(v); f.vectors == nil || q.along {
		f.vectors = eigenvectors(v)
	}
	if f.vectors == nil {
		return f
	}
	var z mat.VecDense
	z.MulVec(f.vectors.T(), mat.NewVecDense(m, q.sums[lo:hi]))
	z.ScaleVec(1/math.Sqrt(q.n), &z)
	f.z = z.RawVector().Data
	return f
}

// whole returns columns W with WᵀVW = I where no eigenvalue of V is below rankTolerance, from its Cholesky
// factor, which takes a tenth of the eigenvectors' time; nil where some may be: the sum of 1/λ is more than
// 1/rankTolerance.
func whole(v *mat.SymDense) mat.Matrix {
	var chol mat.Cholesky
	if !chol.Factorize(v) {
		return nil
	}
	var lower, inverse mat.TriDense
	chol.LTo(&lower)
	if inverse.InverseTri(&lower) != nil {
		return nil
	}
	if norm := mat.Norm(&inverse, 2); !(norm*norm < 1/rankTolerance) {
		return nil
	}
	return inverse.T()
}

// eigenvectors returns those of the eigenvalues above rankTolerance, over their roots; nil where there is none.
func eigenvectors(v *mat.SymDense) mat.Matrix {
	var eig mat.EigenSym
	if !eig.Factorize(v, true) {
		return nil
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	values := eig.Values(nil) // ascending
	few := 0
	for few < len(values) && values[few] < rankTolerance {
		few++
	}
	if few == len(values) {
		return nil
	}
	out := mat.NewDense(len(values), len(values)-few, nil)
	out.Apply(func(i, j int, _ float64) float64 { return vectors.At(i, few+j) / math.Sqrt(values[few+j]) }, out)
	return out
}

// fewestRows is the least number of rows that must carry a direction, n/E z⁴, for it to count where that is known:
// a cell of two factors that has one row is far from normal in sum. Those of the residuals' shape alone have
// smooth tails, which the skewness tells more of: half of a row is enough.
const fewestRows = 1

// fewest is that of the form.
func (f form) fewest() float64 {
	if f.name == infer.ResidualsTest {
		return fewestRows / 2.
	}
	return fewestRows
}

// statistic is Σ z² over the directions that count, and their number. Where their skewness is known z
// is that of a normal number at the same place of its distribution as the sum in a gamma's of this skewness; of groups
// then at that of the t law which has the kurtosis that is left above the gamma's.
func (f form) statistic() (sum float64, directions int) {
	for d, z := range f.z {
		if f.skewness != nil {
			if f.n < f.fewest()*f.kurtosis[d] {
				continue
			}
			skewness := f.skewness[d] / math.Sqrt(f.n)
			z = normalised(z, skewness)
			if f.groups {
				z = lightened(z, (f.kurtosis[d]-3)/f.n-1.5*skewness*skewness)
			}
		}
		sum += z * z
		directions++
	}
	return sum, directions
}

// normalised is Wilson and Hilferty's transformation of a gamma with mean 0, variance 1 and skewness γ = 2/√k:
// 3√k·(∛(1 + z/√k) − 1 + 1/(9k)), which is z at γ = 0; below the gamma's end it is that of the end.
func normalised(z, skewness float64) float64 {
	root := 2 / math.Abs(skewness)
	if root > 1e5 { // the difference is below 1e−5·z²
		return z
	}
	sign := math.Copysign(1, skewness)
	return sign * (3*root*(math.Cbrt(max(0, 1+sign*z/root))-1) + 1/(3*root))
}

// lightened is the normal number at the place that z, of variance 1, has in the t law of this excess kurtosis,
// 6/(ν − 4), and z where that is next to nothing.
func lightened(z, kurtosis float64) float64 {
	if !(kurtosis > 1e-3) {
		return z
	}
	nu := 4 + 6/kurtosis
	tail := distuv.StudentsT{Sigma: 1, Nu: nu}.CDF(-math.Abs(z) * math.Sqrt(nu/(nu-2)))
	return math.Copysign(distuv.UnitNormal.Quantile(max(tail, 1e-300)), z)
}

// chiSquared is the test of a statistic whose covariance is as good as known; DF is 0 where
// nothing is left of the terms, or g is not finite at some x.
func (f form) chiSquared() infer.Test {
	t := infer.Test{Name: f.name, PValue: 1, Features: f.features}
	if t.Statistic, t.DF = f.statistic(); !numeric.Finite(t.Statistic) {
		return infer.Test{}
	}
	if t.DF > 0 {
		t.PValue = distuv.ChiSquared{K: float64(t.DF)}.Survival(t.Statistic)
	}
	return t
}

// hotelling is the test of a statistic whose covariance was taken over draws: with q degrees of
// freedom and N draws (N−q+1)/(N·q) times it is F with q and N−q+1.
func (f form) hotelling() infer.Test {
	t := f.chiSquared()
	if q := float64(t.DF); t.DF > 0 {
		rest := max(f.draws-q+1, 1)
		// The tail of F, which distuv has as 1 − CDF: nothing of it is left below 1e−16.
		t.PValue = mathext.RegIncBeta(rest/2, q/2, 1/(1+t.Statistic/f.draws))
	}
	return t
}

// tests are those of the forms of which anything is left.
func (q *quadraticForms) tests() (out []infer.Test) {
	for _, f := range q.forms {
		if t := f.hotelling(); t.DF > 0 {
			t.Robust = t.Name != infer.ResidualsTest && t.Name != infer.CorrelationTest
			out = append(out, t)
		}
	}
	return out
}
