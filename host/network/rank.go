package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/internal/numeric"
)

// undetermined is the eigenvalue of the information, scaled to unit diagonal, up to which the rows do not tell a
// combination of the parameters. Rounding of its sums leaves 1e−14. A combination at the bound has 10⁵ times the
// standard error of a parameter that nothing else is confounded with.
const undetermined = 1e-10

// loose returns an orthonormal basis, columns, of the combinations of the parameters of n that no row's prediction
// depends on, to first order; nil where there are none. The parameters are those of θ in units of 1/√(Σ w·J²), J the
// gradient of a prediction: so the basis spans the null space of the information Σ w·J·Jᵀ/σ² of unit diagonal, which
// that of the loss is where E[y|x] is the network. Where v is free it is that within the sphere ‖w_i‖ = 1.
func (l *Loss) loose(ctx context.Context, theta []float64) (*mat.Dense, error) {
	s, err := l.pass(ctx, l.Network(theta), true, true)
	if err != nil {
		return nil, err
	}
	size := l.Dim()
	unit := make([]float64, size)
	for i := range unit {
		unit[i] = 1
		if v := s.gram[i*size+i]; v > 0 {
			unit[i] = 1 / math.Sqrt(v)
		}
	}
	h := mat.NewSymDense(size, nil)
	for i := range size {
		for j := i; j < size; j++ {
			h.SetSym(i, j, s.gram[i*size+j]*unit[i]*unit[j])
		}
	}
	for i := 0; i < l.k && l.output == nil; i++ {
		normal := mat.NewVecDense(size, nil)
		at := normal.RawVector().Data[i*l.d : (i+1)*l.d]
		floats.MulTo(at, unit[i*l.d:(i+1)*l.d], theta[i*l.d:(i+1)*l.d])
		h.SymRankOne(h, 1/floats.Dot(at, at), normal)
	}
	if !numeric.Finite(h.RawSymmetric().Data...) {
		return nil, errOverflow
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(h, true) {
		return nil, fmt.Errorf("the eigenvalues of the information cannot be computed")
	}
	found := 0
	for _, v := range eigen.Values(nil) { // ascending
		if v <= undetermined {
			found++
		}
	}
	if found == 0 {
		return nil, nil
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	return mat.DenseCopyOf(vectors.Slice(0, size, 0, found)), nil
}

// errOverflow says that there is no information in numbers.
var errOverflow = errors.New("the information of the weights is not finite")

// takesPart is the squared part of a parameter in combinations from which it is among those that they are of.
const takesPart = 1e-6

// identify lowers the verdict on an optimum where the rows do not tell its weights: then it is one of a family of
// networks of the same loss, and not judged, as the optimum of a likelihood without a maximum is.
func (f *fit) identify(ctx context.Context) error {
	n, c := f.out.Network, f.out.Certificate
	l, err := f.loss(n)
	if err != nil {
		return err
	}
	loose, err := l.loose(ctx, l.Theta(n))
	if errors.Is(err, errOverflow) {
		c.Optimum, c.Reason = infer.NotJudged, err.Error()
		return nil
	}
	if loose == nil || err != nil {
		return err
	}
	why := f.why(loose)
	if c.Optimum != infer.Pass {
		c.Reason += "; " + why
		return nil
	}
	c.Optimum, c.Reason = infer.NotJudged, why
	return nil
}

// why says which combinations the rows do not tell.
func (f *fit) why(loose *mat.Dense) string {
	if f.K > 1 && f.curves.vanishes(2) && f.curves.vanishes(3) {
		return "no data can tell the w_i apart: phi is linear, and only the sum of the v_i*w_i enters y; a network " +
			"of one unit is the same"
	}
	_, d := f.rows.Dims()
	size, found := loose.Dims()
	var units, features []string
	part := func(of func(at int) bool) bool {
		sum := 0.0
		for at := range size {
			if row := loose.RawRowView(at); of(at) {
				sum += floats.Dot(row, row)
			}
		}
		return sum > takesPart
	}
	for i := range f.K {
		if part(func(at int) bool { return at < f.K*d && at/d == i || at == f.K*d+i }) {
			units = append(units, fmt.Sprint(i+1))
		}
	}
	for j, name := range f.out.Schema.Features {
		if part(func(at int) bool { return at < f.K*d && at%d == j }) {
			features = append(features, fmt.Sprintf("%q", name))
		}
	}
	what, verb, whose := "combinations", "change", "unit "
	if found == 1 {
		what, verb = "combination", "changes"
	}
	if len(units) > 1 {
		whose = "units "
	}
	on := ""
	if len(features) < d {
		on = " on " + strings.Join(features, ", ")
	}
	return fmt.Sprintf("the data do not tell the weights: %d %s of those of %s%s%s %s no row's prediction; a smaller "+
		"k, or features that do not depend on each other", found, what, whose, strings.Join(units, ", "), on, verb)
}
