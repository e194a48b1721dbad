package gru

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// Leaf is what an expert of a unit's tree is; see [Shape].
type Leaf int

const (
	Keep   Leaf = iota // the state carried over: h_j
	Closed             // the candidate of a closed reset gate: tanh(Wx + b)
	Open               // the candidate of an open one: tanh(Wx + Uh + b + c)
)

// Never is the size of the bias of a gate that never switches, whose weights are 0: its
// logistic function is 0 or 1 to the last bit.
const Never = 1000

// Row is a row of an [Affine]: ⟨W,x⟩ + ⟨U,h⟩ + B.
type Row struct {
	W []float64 `json:"w"` // I
	U []float64 `json:"u"` // H
	B float64   `json:"b"`
}

// Candidate is a unit's row of the candidate, tanh(⟨W,x⟩ + b + r·(⟨U,h⟩ + c)).
type Candidate struct {
	Row
	C float64 `json:"c"`
}

// Unit is what the states of hidden unit j say of its rows of the layer.
type Unit struct {
	// Leaves are the unit's, in the order of the experts that were matched. Where [Keep] is
	// missing the unit never keeps its state, where it is alone it does nothing else, and there
	// is no candidate. Where one of [Closed] and [Open] is missing the reset gate never
	// switches: the one candidate counts as [Open], with c = 0.
	Leaves        []Leaf
	Update, Reset Row // predictors of z and r
	Candidate     Candidate

	// Errors are standard errors of the candidate, HAC those for dependent rows; nil where
	// there is none. ChiSquared has so many degrees of freedom where the experts are a unit's: 0
	// where nothing was tested. PValue is its tail.
	Errors, HAC *Candidate
	ChiSquared  float64
	DF          int
	PValue      float64
}

// Has says whether the unit has such a leaf.
func (u *Unit) Has(leaf Leaf) bool {
	for _, l := range u.Leaves {
		if l == leaf {
			return true
		}
	}
	return false
}

// Switches says whether the update gate and the reset gate do.
func (u *Unit) Switches() (update, reset bool) {
	return u.Has(Keep) && len(u.Leaves) > 1, u.Has(Closed)
}

// Estimates are those of a mixture over (x, h) of which a unit's rows are made: a tree of
// [Shape], or of those of its leaves that there are.
type Estimates struct {
	Params *model.Params // with intercepts; D = I + H
	// Keeps says whether expert 1 has the identity for activation; the others have tanh.
	Keeps bool
	// Covariance is that of the experts' coefficients, K·(D+1) of them, expert by expert with the
	// intercept last; HAC another for dependent rows. Nil where there is none.
	Covariance, HAC *mat.SymDense
}

// Match returns what the estimates say of unit j, 0 ≤ j < H, of a layer over so many
// inputs. Its experts are free, those of a unit are not: the first is h_j itself, the one of
// a closed reset gate has no weights on h, and those on x are the same for both. What
// comes nearest to the estimates θ̂ among all θ = Mφ + θ₀ of that kind, with φ = (W, U, b, c), is
//
//	φ̂ = (Mᵀ V⁻¹ M)⁻¹ Mᵀ V⁻¹ (θ̂ − θ₀),   χ² = (θ̂ − θ₀ − Mφ̂)ᵀ V⁻¹ (θ̂ − θ₀ − Mφ̂)
//
// V their covariance. φ̂ has the covariance (Mᵀ V⁻¹ M)⁻¹, as maximum likelihood under these
// restrictions has, and where they hold χ² is that of as many degrees of freedom as there are
// restrictions (minimum distance: Rothenberg 1973). Of two candidates the one is closed that gives
// the smaller χ². Without a covariance V is taken for I, and nothing is tested.
func Match(e Estimates, j, inputs int) (*Unit, error) {
	var best *Unit
	for _, leaves := range labels(e) {
		u := &Unit{Leaves: leaves}
		if err := u.project(e, j, inputs); err != nil {
			return nil, err
		}
		if best == nil || u.ChiSquared < best.ChiSquared {
			best = u
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%d experts are no unit's", e.Params.K)
	}
	best.gates(e.Params, inputs)
	if e.Covariance == nil {
		best.ChiSquared, best.DF, best.PValue = 0, 0, 0
	}
	return best, nil
}

// labels are the ways in which the experts may be a unit's leaves.
func labels(e Estimates) [][]Leaf {
	var keep []Leaf
	if e.Keeps {
		keep = []Leaf{Keep}
	}
	with := func(leaves ...Leaf) []Leaf { return append(keep[:len(keep):len(keep)], leaves...) }
	switch e.Params.K - len(keep) {
	case 0:
		return [][]Leaf{with()}
	case 1:
		return [][]Leaf{with(Open)}
	case 2:
		return [][]Leaf{with(Closed, Open), with(Open, Closed)}
	}
	return nil
}

// restrictions are M and θ₀ for these leaves; φ is as long as M has columns.
func (u *Unit) restrictions(j, inputs, d int) (m *mat.Dense, zero []float64) {
	hidden := d - inputs
	free := 0
	if u.Has(Open) {
		free = d + 1 // W, U, b
	}
	if u.Has(Closed) {
		free++ // c
	}
	zero = make([]float64, len(u.Leaves)*(d+1))
	if free == 0 {
		zero[inputs+j] = 1
		return nil, zero
	}
	m = mat.NewDense(len(zero), free, nil)
	for i, leaf := range u.Leaves {
		at := i * (d + 1)
		if leaf == Keep {
			zero[at+inputs+j] = 1
			continue
		}
		for f := range inputs {
			m.Set(at+f, f, 1)
		}
		m.Set(at+d, d, 1)
		if leaf == Closed {
			continue
		}
		for f := range hidden {
			m.Set(at+inputs+f, inputs+f, 1)
		}
		if u.Has(Closed) {
			m.Set(at+d, d+1, 1)
		}
	}
	return m, zero
}

var errCovariance = errors.New("the covariance of a unit's experts is not positive definite")

// project sets candidate, errors and test.
func (u *Unit) project(e Estimates, j, inputs int) error {
	p := e.Params
	d := p.D
	m, zero := u.restrictions(j, inputs, d)
	off := mat.NewVecDense(len(zero), nil) // θ̂ − θ₀
	for i := range p.K {
		for f := range d {
			off.SetVec(i*(d+1)+f, p.Regressor(i)[f])
		}
		off.SetVec(i*(d+1)+d, p.RegressorIntercepts[i])
	}
	off.SubVec(off, mat.NewVecDense(len(zero), zero))
	v := e.Covariance
	if v == nil {
		v = mat.NewSymDense(len(zero), nil)
		for i := range zero {
			v.SetSym(i, i, 1)
		}
	}
	var root mat.Cholesky
	if !root.Factorize(v) {
		return errCovariance
	}
	u.DF = len(zero)
	left := mat.VecDenseCopyOf(off)
	if m != nil {
		var weighted, product mat.Dense // V⁻¹M, MᵀV⁻¹M
		if err := root.SolveTo(&weighted, m); err != nil {
			return errCovariance
		}
		product.Mul(m.T(), &weighted)
		var inverse, gain mat.Dense // (MᵀV⁻¹M)⁻¹ and the matrix that makes φ̂ of θ̂ − θ₀
		if err := inverse.Inverse(&product); err != nil {
			return errCovariance
		}
		gain.Mul(&inverse, weighted.T())
		var phi mat.VecDense
		phi.MulVec(&gain, off)
		u.Candidate = candidateOf(phi.RawVector().Data, inputs, d)
		if e.Covariance != nil {
			u.Errors = errorsOf(&inverse, inputs, d)
		}
		if e.HAC != nil {
			var half, c mat.Dense
			half.Mul(&gain, e.HAC)
			c.Mul(&half, gain.T())
			u.HAC = errorsOf(&c, inputs, d)
		}
		var fitted mat.VecDense
		fitted.MulVec(m, &phi)
		left.SubVec(left, &fitted)
		u.DF -= phi.Len()
	} else {
		u.Candidate = candidateOf(make([]float64, d+1), inputs, d)
	}
	var solved mat.VecDense
	if err := root.SolveVecTo(&solved, left); err != nil {
		return errCovariance
	}
	u.ChiSquared = mat.Dot(left, &solved)
	u.PValue = 1
	if u.DF > 0 {
		u.PValue = distuv.ChiSquared{K: float64(u.DF)}.Survival(u.ChiSquared)
	}
	return nil
}

// candidateOf takes φ = (W, U, b) or (W, U, b, c) apart.
func candidateOf(phi []float64, inputs, d int) Candidate {
	c := Candidate{Row: Row{W: phi[:inputs], U: phi[inputs:d], B: phi[d]}}
	if len(phi) > d+1 {
		c.C = phi[d+1]
	}
	return c
}

// errorsOf are the roots of a covariance's diagonal.
func errorsOf(v mat.Matrix, inputs, d int) *Candidate {
	n, _ := v.Dims()
	se := make([]float64, n)
	for i := range se {
		se[i] = math.Sqrt(v.At(i, i))
	}
	c := candidateOf(se, inputs, d)
	return &c
}

// gates sets the gates' predictors, from the rows of the mixture's gate.
func (u *Unit) gates(p *model.Params, inputs int) {
	constant := func(b float64) Row {
		return Row{W: make([]float64, inputs), U: make([]float64, p.D-inputs), B: b}
	}
	row := func(i int, sign float64) Row {
		w := make([]float64, p.D)
		floats.AddScaled(w, sign, p.Gate(i))
		return Row{W: w[:inputs], U: w[inputs:], B: sign * p.GatingIntercepts[i]}
	}
	update, reset := u.Switches()
	u.Update, u.Reset = constant(-Never), constant(Never)
	switch {
	case update:
		u.Update = row(0, 1)
	case u.Has(Keep):
		u.Update = constant(Never)
	}
	if reset {
		last := len(u.Leaves) - 2 // between the two candidates
		sign := 1.0
		if u.Leaves[last] == Closed {
			sign = -1
		}
		u.Reset = row(last, sign)
	}
}

// LayerOf is the layer of these units, in their order, with so many inputs.
func LayerOf(units []*Unit, inputs int) *Layer {
	h := len(units)
	affine := func() Affine {
		return Affine{W: mat.NewDense(h, inputs, nil), U: mat.NewDense(h, h, nil), B: make([]float64, h)}
	}
	l := &Layer{Form: ResetAfter, Update: affine(), Reset: affine(), Candidate: affine(),
		RecurrentBias: make([]float64, h)}
	for j, u := range units {
		for _, set := range []struct {
			to  Affine
			row Row
		}{{l.Update, u.Update}, {l.Reset, u.Reset}, {l.Candidate, u.Candidate.Row}} {
			set.to.W.SetRow(j, set.row.W)
			set.to.U.SetRow(j, set.row.U)
			set.to.B[j] = set.row.B
		}
		l.RecurrentBias[j] = u.Candidate.C
	}
	return l
}
