package network

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
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
// ([infer.ConditionalMoments]); the verdicts are [infer.Judge]'s. None of the tests
// depends on the noise's shape.
func Certify(ctx context.Context, rows model.Rows, act model.Activation, n *model.Network, e infer.Evidence, threads int) (*infer.Certificate, error) {
	residuals, squares, total, err := residualsOf(ctx, rows, act, n)
	if err != nil {
		return nil, err
	}
	if squares <= exact*exact*total {
		return &infer.Certificate{Optimum: infer.Pass, Model: infer.Pass, Reason: "the residuals are 0 to rounding", PValue: 1}, nil
	}
	if model.Blocks(rows) < 4 {
		return infer.Judge(nil, e), nil
	}
	own := unitDirections(n)
	other, err := suspects(ctx, &alternate{residuals, 0}, own, threads)
	if err != nil {
		return nil, err
	}
	var tests []infer.Test
	for _, c := range []struct {
		name, suggests string
		directions     [][]float64
	}{{missingUnits, "units that are merged", other}, {nonlinearity, "another nonlinearity", own}} {
		t, err := residualTest(ctx, &alternate{residuals, 1}, act, n, c.directions)
		if err != nil {
			return nil, err
		}
		if t.DF > 0 {
			t.Name, t.Suggests, t.Robust = c.name, c.suggests, true
			tests = append(tests, t)
		}
	}
	certificate := infer.Judge(tests, e)
	if certificate.PValue >= infer.Doubt {
		certificate.Reason = "the residuals show no sign of missing or merged units"
	}
	return certificate, nil
}

// Names of the tests.
const missingUnits, nonlinearity = "missing units", "nonlinearity"

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

// residualsOf returns the rows with r = y − f(x) in the place of y, the sum of r²
// and that of y².
func residualsOf(ctx context.Context, rows model.Rows, act model.Activation, n *model.Network) (out *model.Data, squares, total float64, err error) {
	if out, err = model.InMemory(ctx, rows, 1); err != nil {
		return nil, 0, 0, err
	}
	mean, units := make([]float64, model.BlockRows), make([]float64, n.K*model.BlockRows)
	for i := range out.Blocks {
		b := &out.Blocks[i]
		if err := n.Mean(ctx, mean[:b.N], units, act, b); err != nil {
			return nil, 0, 0, err
		}
		total += floats.Dot(b.Y, b.Y)
		floats.Sub(b.Y, mean[:b.N])
		squares += floats.Dot(b.Y, b.Y)
	}
	return out, squares, total, nil
}

// unitDirections are the ŵ_i.
func unitDirections(n *model.Network) [][]float64 {
	out := make([][]float64, n.K)
	for i := range out {
		out[i] = append([]float64(nil), n.Unit(i)...)
		floats.Scale(1/floats.Norm(out[i], 2), out[i])
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
// number of rows.
func traceOfThird(ctx context.Context, dst []float64, rows model.Rows) error {
	return model.InOrder(ctx, rows, func(b *model.Block) error {
		t := make([]float64, b.N)
		for j := range dst {
			for i, x := range b.Col(j) {
				t[i] += x * x
			}
		}
		for i := range t {
			t[i] = b.Y[i] * (t[i] - float64(len(dst)) - 2)
		}
		for j := range dst {
			dst[j] += floats.Dot(t, b.Col(j))
		}
		return nil
	})
}

// functions of z that the residuals are tested against, bounded.
func functions(z float64) [4]float64 {
	e := math.Exp(-z * z / 4)
	return [4]float64{e, (z*z - 1) * e, z * (z*z - 3) * e, (z*z*(z*z-6) + 3) * e}
}

// residualTest is the test of r against the functions along the directions.
func residualTest(ctx context.Context, rows model.Rows, act model.Activation, n *model.Network, directions [][]float64) (infer.Test, error) {
	scores := n.K * n.D
	size := scores + 4*len(directions)
	cov, sums := mat.NewSymDense(size, nil), make([]float64, size)
	row := make([]float64, size)
	z, slope := make([]float64, n.K*model.BlockRows), make([]float64, n.K*model.BlockRows)
	along := make([]float64, len(directions)*model.BlockRows)
	var flat []float64
	for _, u := range directions {
		flat = append(flat, u...)
	}
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		model.Linear(z[:n.K*b.N], n.Weights, nil, b)
		if err := act.Deriv(ctx, slope[:n.K*b.N], z[:n.K*b.N]); err != nil {
			return err
		}
		model.Linear(along[:len(directions)*b.N], flat, nil, b)
		for t, r := range b.Y {
			if b.W != nil {
				r *= b.W[t]
			}
			for i := range n.K {
				for j := range n.D {
					row[i*n.D+j] = r * slope[i*b.N+t] * b.Col(j)[t]
				}
			}
			for m := range directions {
				for q, v := range functions(along[m*b.N+t]) {
					row[scores+4*m+q] = r * v
				}
			}
			floats.Add(sums, row)
			cov.SymRankOne(cov, 1, mat.NewVecDense(size, row))
		}
		return nil
	})
	if err != nil {
		return infer.Test{}, err
	}
	count, _ := rows.Dims()
	cov.ScaleSym(1/float64(count), cov)
	return infer.ConditionalMoments(cov, sums, scores, float64(count)), nil
}
