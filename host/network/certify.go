package network

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
)

const (
	// exact is the residuals' rms, relative to that of y, that counts as rounding.
	exact = 1e-7
	// found is how many directions are taken from each tensor of the residuals.
	found = 2
)

// Certify says whether the residuals r of a fit show that units are missing or
// merged. Under the right weights E[r|x] = 0, so that r is orthogonal to every
// function of x. On every other block of rows the directions are found in which r has
// most structure: the leading eigenvectors of E[r·S2(x)], of E[r·S3(x)](·,·,ŵ_i) for
// every unit, and the trace of E[r·S3(x)]. On the other blocks r is tested against
// the Hermite functions He_q(z)·exp(−z²/4), q = 0, 2, 3, 4, of z along these
// directions ("missing units"), and along the units themselves ("nonlinearity"), by
// conditional-moment tests joined with the scores
// ([specification.ConditionalMoments]). Fewer than four blocks are halved row by row, and where a half has fewer
// than [rowsPerTerm] rows for each number that is estimated or tested neither test is made. That r has the mean 0
// ("constant") is tested on all rows, however few. The verdicts are [infer.Judge]'s. None of the tests
// depends on the noise's shape. An optimum on which fewer than three starts agree is not judged: what a wrong network
// leaves of y can be too little for the tests to see. Weights are counts of rows: both verdicts are taken back where
// they cannot be ([infer.Certificate.Withdraw]). It also says if the residuals have a mean, which no unit has; "" if
// not.
func Certify(ctx context.Context, rows model.Rows, act model.Activation, n *model.Network, known Output,
	e infer.Evidence, threads int) (_ *infer.Certificate, constant string, err error) {
	e.Parts, e.Alike = "units", true
	residuals, squares, total, err := residualsOf(ctx, rows, act, n)
	if err != nil {
		return nil, "", err
	}
	if squares <= exact*exact*total {
		return &infer.Certificate{Optimum: infer.Pass, Model: infer.NotJudged,
			Reason: "the residuals are 0 to rounding", PValue: 1}, "", nil
	}
	constant = constantOf(residuals)
	weights, err := problem.WeightsOf(ctx, residuals)
	if err != nil {
		return nil, "", err
	}
	first, second, err := halves(ctx, residuals)
	if err != nil {
		return nil, "", err
	}
	var tests []infer.Test
	test := func(name, suggests string, rows model.Rows, functions rowFunctions) error {
		t, err := residualTest(ctx, rows, act, n, known, functions)
		if t.DF > 0 {
			t.Name, t.Suggests, t.Robust = name, suggests, true
			tests = append(tests, t)
		}
		return err
	}
	own := unitDirections(n)
	few, err := tooFew(second, n, known)
	if err != nil {
		return nil, "", err
	}
	if few == "" {
		other, err := suspects(ctx, first, own, threads)
		if err != nil {
			return nil, "", err
		}
		if err := test(missingUnits, "units that are merged", second, rowFunctions{along: other}); err != nil {
			return nil, "", err
		}
		if err := test(nonlinearity, "another nonlinearity", second, rowFunctions{along: own}); err != nil {
			return nil, "", err
		}
	}
	if err := test(aConstant, "a constant in y, or other signs of v", residuals, rowFunctions{one: true}); err != nil {
		return nil, "", err
	}
	certificate := infer.Judge(tests, e)
	passes := certificate.Optimum == infer.Pass && certificate.PValue >= infer.Doubt
	switch {
	case few != "":
		certificate.NotMade = []infer.NotMade{{Name: missingUnits, Why: few}, {Name: nonlinearity, Why: few}}
		if certificate.Model == infer.Pass {
			certificate.Model = infer.NotJudged
		}
		if passes {
			certificate.Reason = fmt.Sprintf("%d of %d starts reached it and none found better; whether units are "+
				"merged was not tested, on too few rows", e.Agreeing, e.Starts)
		}
	case passes:
		certificate.Reason = "the residuals show no sign of missing or merged units"
	}
	if weights.Light() {
		certificate.Withdraw(weights.Rows, weights.Total)
	}
	return certificate, constant, nil
}

// Names of the tests.
const missingUnits, nonlinearity, aConstant = "missing units", "nonlinearity", "constant"

// halves are the rows on which directions are sought, and those on which they are tested: every other block, or
// where there are fewer than four every other row.
func halves(ctx context.Context, rows *model.Data) (first, second model.Rows, err error) {
	if len(rows.Blocks) >= 4 {
		return &alternate{rows, 0}, &alternate{rows, 1}, nil
	}
	if first, err = model.Where(ctx, rows, func(row int) bool { return row%2 == 0 }); err != nil {
		return nil, nil, err
	}
	second, err = model.Where(ctx, rows, func(row int) bool { return row%2 == 1 })
	return first, second, err
}

// rowsPerTerm is the number of rows below which a test says next to nothing: its statistic is at most the number of
// rows, and with as many terms it is that whatever the residuals are.
const rowsPerTerm = 2

// tooFew says how many rows the tests along directions take, where half of them are too few; "" where they are not.
func tooFew(half model.Rows, n *model.Network, known Output) (string, error) {
	sums, err := model.TotalsOf(half)
	directions := min(found, n.D)*(1+n.K) + 1
	want := rowsPerTerm * (newTerms(nil, n, known, rowFunctions{}).gradients + perDirection*directions)
	if err != nil || sums.Weight >= float64(want) {
		return "", err
	}
	return fmt.Sprintf("it takes %d rows", 2*want), nil
}

// alternate is every other block of rows, from the first or the second on.
type alternate struct {
	rows   *model.Data
	offset int
}

// Dims implements [model.Rows].
func (a *alternate) Dims() (n, d int) {
	for i := a.offset; i < len(a.rows.Blocks); i += 2 {
		n += a.rows.Blocks[i].N
	}
	return n, a.rows.D
}

// Block implements [model.Rows].
func (a *alternate) Block(i int, _ *model.Room) (*model.Block, error) {
	return &a.rows.Blocks[2*i+a.offset], nil
}

// residualsOf returns the rows with r = y − f(x) in the place of y, the sum of w·r²
// and that of w·y².
func residualsOf(ctx context.Context, rows model.Rows, act model.Activation,
	n *model.Network) (out *model.Data, squares, total float64, err error) {
	if out, err = model.InMemory(ctx, rows, 1); err != nil {
		return nil, 0, 0, err
	}
	mean, units := make([]float64, model.BlockRows), make([]float64, n.K*model.BlockRows)
	for i := range out.Blocks {
		b := &out.Blocks[i]
		if err := n.Mean(ctx, mean[:b.N], units, act, b); err != nil {
			return nil, 0, 0, err
		}
		total += weighted(b)
		floats.Sub(b.Y, mean[:b.N])
		squares += weighted(b)
	}
	return out, squares, total, nil
}

// constantFrom is how many standard errors from 0 the mean of residuals is said to be one.
const constantFrom = 5

// constantOf says that the residuals of a network have a mean, which no unit has; "" where they have none.
func constantOf(residuals *model.Data) string {
	each := func(add func(r, w float64)) {
		for i := range residuals.Blocks {
			for row, r := range residuals.Blocks[i].Y {
				add(r, residuals.Blocks[i].Weight(row))
			}
		}
	}
	var mean, weight, variance float64 // of the mean
	each(func(r, w float64) { mean, weight = mean+w*r, weight+w })
	mean /= weight
	each(func(r, w float64) { variance += w * (r - mean) * (r - mean) / (weight * weight) })
	apart := math.Abs(mean) / math.Sqrt(variance)
	if !(apart > constantFrom) {
		return ""
	}
	return fmt.Sprintf("the residuals have mean %.4g, %.3g standard errors from 0: y has a constant, which no network "+
		"has, or the output weights are others; take the constant off y", mean, apart)
}

// weighted is Σ w·y² of a block.
func weighted(b *model.Block) float64 {
	if b.Role[model.Weights] == nil {
		return floats.Dot(b.Y, b.Y)
	}
	sum := 0.0
	for i, y := range b.Y {
		sum += b.Role[model.Weights][i] * y * y
	}
	return sum
}

// unitDirections are the ŵ_i, of those that have one in numbers: not of w_i = 0.
func unitDirections(n *model.Network) (out [][]float64) {
	for i := range n.K {
		w := slices.Clone(n.Unit(i))
		if floats.Scale(1/floats.Norm(w, 2), w); numeric.Finite(w...) {
			out = append(out, w)
		}
	}
	return out
}

// suspects are the directions in which the residuals have most structure.
func suspects(ctx context.Context, rows model.Rows, own [][]float64, threads int) ([][]float64, error) {
	_, d := rows.Dims()
	sums, err := tensor.SumSecond(ctx, rows, threads)
	if err != nil {
		return nil, err
	}
	var out [][]float64
	add := func(m *mat.SymDense) error {
		v, _, err := leading(m, min(found, d))
		if err == nil {
			_, cols := v.Dims()
			for c := range cols {
				out = append(out, mat.Col(nil, c, v))
			}
		}
		return err
	}
	if err := add(sums.YXX()); err != nil {
		return nil, err
	}
	e := &estimator{rows: rows, d: d, workers: threads}
	trace := make([]float64, d)
	for _, w := range own {
		m3, err := e.third(ctx, make([]float64, d), w)
		if err != nil {
			return nil, err
		}
		if err := add(m3); err != nil {
			return nil, err
		}
	}
	if err := traceOfThird(ctx, trace, rows); err != nil {
		return nil, err
	}
	if norm := floats.Norm(trace, 2); norm > 0 {
		floats.Scale(1/norm, trace)
		out = append(out, trace)
	}
	return out, nil
}

// traceOfThird writes Σ_j E[r·S3(x)](e_j, e_j, ·) = E[r·x·(‖x‖² − d − 2)], up to the
// sum of the weights.
func traceOfThird(ctx context.Context, dst []float64, rows model.Rows) error {
	return model.InOrder(ctx, rows, func(b *model.Block) error {
		t := make([]float64, b.N)
		for j := range dst {
			for i, x := range b.Col(j) {
				t[i] += x * x
			}
		}
		for i := range t {
			t[i] = b.Y[i] * (t[i] - float64(len(dst)) - 2) * b.Weight(i)
		}
		for j := range dst {
			dst[j] += floats.Dot(t, b.Col(j))
		}
		return nil
	})
}

// functions of z that the residuals are tested against, bounded.
func functions(z float64) [perDirection]float64 {
	e := math.Exp(-z * z / 4)
	return [4]float64{e, (z*z - 1) * e, z * (z*z - 3) * e, (z*z*(z*z-6) + 3) * e}
}

// rowFunctions are those of x that residuals are tested against: some along each of the directions, or the
// constant 1.
type rowFunctions struct {
	along [][]float64
	one   bool
}

// count is the number of functions.
func (f rowFunctions) count() int {
	if f.one {
		return 1
	}
	return perDirection * len(f.along)
}

// residualTest is the test that the residuals r have nothing to do with the functions h
// of x: over the rows Σ w·r·h̃ has mean 0, with h̃ what least squares on the
// gradients J of a row's prediction leave of h,
//
//	h̃ = h − Bᵀ·J,  B = (Σ w·J·Jᵀ)⁻¹·Σ w·J·hᵀ
//
// so that to first order an error of what was learned, w and with [UnitRows] v, is not in it,
// whatever the noise's variance is on each row (Wooldridge 1991). Weights are counts of rows: its covariance is
// Σ w·r²·h̃·h̃ᵀ, widened for the parameters that were estimated, and n is Σ w.
func residualTest(ctx context.Context, rows model.Rows, act model.Activation, n *model.Network, known Output,
	functions rowFunctions) (infer.Test, error) {
	if functions.count() == 0 {
		return infer.Test{PValue: 1}, nil
	}
	t := newTerms(act, n, known, functions)
	products, count := newProducts(t.size), 0.0
	err := t.each(ctx, rows, func(b *model.Block, terms blas64.General) {
		for r := range b.N {
			count += b.Weight(r)
		}
		timesRoots(terms, b)
		blas64.Syrk(blas.NoTrans, 1, terms, 1, products)
	})
	if err != nil || count == 0 {
		return infer.Test{PValue: 1}, err
	}
	coef := regression(symmetricOf(products), t.gradients).RawMatrix()
	cov, sums := newProducts(coef.Cols), make([]float64, coef.Cols)
	err = t.each(ctx, rows, func(b *model.Block, terms blas64.General) {
		known, rest := parts(terms, t.gradients)
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, coef, known, 1, rest)
		eachRow(rest, func(i int, row []float64) {
			floats.Mul(row, b.Y)
			if w := b.Role[model.Weights]; w != nil {
				sums[i] += floats.Dot(row, w)
			} else {
				sums[i] += floats.Sum(row)
			}
		})
		timesRoots(rest, b)
		blas64.Syrk(blas.NoTrans, 1, rest, 1, cov)
	})
	if err != nil {
		return infer.Test{}, err
	}
	wide := symmetricOf(cov)
	wide.ScaleSym(1/max(count-float64(t.gradients), count/2), wide)
	return specification.ConditionalMoments(wide, sums, count), nil
}

// terms are those of rows: the gradients of their predictions by w, v apart, and by v where that was learned, and
// the functions along the directions.
type terms struct {
	act             model.Activation
	n               *model.Network
	along           []float64 // the directions
	one             bool      // whether the one function is 1
	gradients, size int
	byOutput        bool // whether gradients by v are among them

	z, value, slope []float64 // units × a block's rows
	by              []float64 // directions × rows
	out             []float64 // terms × rows
}

// perDirection is the number of functions along a direction.
const perDirection = 4

func newTerms(act model.Activation, n *model.Network, known Output, functions rowFunctions) *terms {
	units := func() []float64 { return make([]float64, n.K*model.BlockRows) }
	t := &terms{act: act, n: n, along: slices.Concat(functions.along...), one: functions.one,
		gradients: n.K * n.D, z: units(), value: units(), slope: units(), byOutput: known == UnitRows}
	if t.byOutput {
		t.gradients += n.K
	}
	t.size = t.gradients + functions.count()
	t.by, t.out = make([]float64, len(functions.along)*model.BlockRows), make([]float64, t.size*model.BlockRows)
	return t
}

// each calls fn with every block and its terms, a row each, which fn may change.
func (t *terms) each(ctx context.Context, rows model.Rows, fn func(b *model.Block, terms blas64.General)) error {
	return model.InOrder(ctx, rows, func(b *model.Block) error {
		n, k, d := b.N, t.n.K, t.n.D
		z, value, slope, by := t.z[:k*n], t.value[:k*n], t.slope[:k*n], t.by[:len(t.along)/d*n]
		model.Linear(z, t.n.Weights, nil, b)
		if err := t.act.Eval(ctx, value, z); err != nil {
			return err
		}
		if err := t.act.Deriv(ctx, slope, z); err != nil {
			return err
		}
		if len(by) > 0 {
			model.Linear(by, t.along, nil, b)
		}
		for i := range k {
			for j := range d {
				floats.MulTo(t.out[(i*d+j)*n:(i*d+j+1)*n], slope[i*n:(i+1)*n], b.Col(j))
			}
		}
		if t.byOutput {
			copy(t.out[k*d*n:], value)
		}
		if t.one {
			for i := range n {
				t.out[t.gradients*n+i] = 1
			}
		}
		for i, v := range by {
			at := (t.gradients+i/n*perDirection)*n + i%n
			for q, h := range functions(v) {
				t.out[at+q*n] = h
			}
		}
		fn(b, blas64.General{Rows: t.size, Cols: n, Stride: n, Data: t.out[:t.size*n]})
		return nil
	})
}

// parts are the first rows of a matrix and the others.
func parts(m blas64.General, first int) (a, b blas64.General) {
	a, b = m, m
	a.Rows, a.Data = first, m.Data[:first*m.Stride]
	b.Rows, b.Data = m.Rows-first, m.Data[first*m.Stride:]
	return a, b
}

// timesRoots multiplies terms by the roots of the rows' weights: their products then count every row w times.
func timesRoots(terms blas64.General, b *model.Block) {
	eachRow(terms, func(_ int, row []float64) {
		for i, w := range b.Role[model.Weights] {
			row[i] *= math.Sqrt(w)
		}
	})
}

func eachRow(m blas64.General, fn func(i int, row []float64)) {
	for i := range m.Rows {
		fn(i, m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
}

func newProducts(n int) blas64.Symmetric {
	return blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Upper}
}

func symmetricOf(s blas64.Symmetric) *mat.SymDense { return mat.NewSymDense(s.N, s.Data) }

// regression returns the coefficients, m×rest, of least squares of the terms behind the first m
// on those, from the sums of products. A ridge of 1e−10 of their squares bears what is
// collinear, as the gradients by w and v of a homogeneous φ are.
func regression(products *mat.SymDense, m int) *mat.Dense {
	size := products.SymmetricDim()
	known, cross := mat.NewSymDense(m, nil), mat.NewDense(m, size-m, nil)
	scale := make([]float64, m)
	for i := range scale {
		if scale[i] = math.Sqrt(products.At(i, i)); scale[i] == 0 {
			scale[i] = 1
		}
	}
	for i := range m {
		for j := i; j < m; j++ {
			known.SetSym(i, j, products.At(i, j)/(scale[i]*scale[j]))
		}
		known.SetSym(i, i, known.At(i, i)+ridge)
		for j := m; j < size; j++ {
			cross.Set(i, j-m, products.At(i, j)/scale[i])
		}
	}
	var chol mat.Cholesky
	coef := mat.NewDense(m, size-m, nil)
	if !chol.Factorize(known) || chol.SolveTo(coef, cross) != nil {
		return mat.NewDense(m, size-m, nil)
	}
	coef.Apply(func(i, _ int, v float64) float64 { return v / scale[i] }, coef)
	return coef
}

// ridge of correlations; rounding leaves 1e−16.
const ridge = 1e-10
