package model

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// VectorParams are the parameters of a mixture of K experts over D features whose
// outputs are vectors of M coordinates, under one gate (002 Eq. 4 with the gate shared):
//
//	P(z=i|x) as of [Params],   y | z=i, x ~ N((g(⟨a_i1,x⟩+b_i1), …, g(⟨a_iM,x⟩+b_iM)), Σ_i)
//
// or of another density with these means.
type VectorParams struct {
	K, D, M             int
	Regressors          []float64     // (K·M)×D, row-major: a_ic is row i·M+c
	RegressorIntercepts []float64     // K·M values b_ic, or nil for none
	Gating              []float64     // as of [Params]
	GatingIntercepts    []float64     // as of [Params]
	Tree                Hierarchy     // as of [Params]
	Noise               []VectorNoise // one of all experts, or K
	// Family is the density of y under an expert, by its name in host/mixture/joint; "" is N.
	Family string `json:",omitempty"`
}

// VectorNoise is N(0, Σ) in ℝ^M by the regressions of every coordinate on those before:
//
//	ε_c = −Σ_{b<c} u_cb·ε_b + s_c·N(0,1),   so that U·Σ·Uᵀ = diag(s²)
//
// with u the rows of the unit lower triangular U (Pourahmadi 1999). Any s > 0 and any u
// are those of one Σ. Other densities have a scale of every target too, and own parameters of their kind.
type VectorNoise struct {
	Scale []float64 // M values s_c
	Lower []float64 // M(M−1)/2 values u_10, u_20, u_21, …; nil where Σ is diagonal
	Own   []float64 `json:",omitempty"` // of another density than N: what it has beside the scales
}

// Others are the parameters beside the scales; they alias n.
func (n VectorNoise) Others() []float64 {
	if n.Own != nil {
		return n.Own
	}
	return n.Lower
}

// NewVectorParams returns zero parameters with one noise, of scales 1: diagonal, or full.
func NewVectorParams(k, d, m int, full bool) *VectorParams {
	if m < 1 {
		panic(fmt.Sprintf("model: %d coordinates", m))
	}
	p := NewParams(k, d)
	return &VectorParams{
		K: k, D: d, M: m, Regressors: make([]float64, k*m*d), Gating: p.Gating,
		Noise: []VectorNoise{NewVectorNoise(m, full)},
	}
}

// NewVectorNoise returns N(0, I).
func NewVectorNoise(m int, full bool) VectorNoise {
	n := VectorNoise{Scale: slices.Repeat([]float64{1}, m)}
	if full {
		n.Lower = make([]float64, m*(m-1)/2)
	}
	return n
}

// Clone returns a deep copy of p.
func (p *VectorParams) Clone() *VectorParams {
	c := *p
	c.Regressors, c.RegressorIntercepts = slices.Clone(p.Regressors), slices.Clone(p.RegressorIntercepts)
	c.Gating, c.GatingIntercepts = slices.Clone(p.Gating), slices.Clone(p.GatingIntercepts)
	c.Noise = make([]VectorNoise, len(p.Noise))
	for i, n := range p.Noise {
		c.Noise[i] = VectorNoise{slices.Clone(n.Scale), slices.Clone(n.Lower), slices.Clone(n.Own)}
	}
	return &c
}

// Like returns zero parameters of p's shape.
func (p *VectorParams) Like() *VectorParams {
	c := p.Clone()
	for _, values := range [...][]float64{c.Regressors, c.RegressorIntercepts, c.Gating, c.GatingIntercepts} {
		clear(values)
	}
	for _, n := range c.Noise {
		clear(n.Scale)
		clear(n.Others())
	}
	return c
}

// Regressor returns a_ic; the slice aliases p.
func (p *VectorParams) Regressor(i, c int) []float64 {
	at := (i*p.M + c) * p.D
	return p.Regressors[at : at+p.D]
}

// NoiseOf returns the noise of expert i; it aliases p.
func (p *VectorParams) NoiseOf(i int) VectorNoise {
	if len(p.Noise) == 1 {
		return p.Noise[0]
	}
	return p.Noise[i]
}

// OfGate returns the gate as that of a mixture without regressors; it aliases p.
func (p *VectorParams) OfGate() *Params {
	return &Params{K: p.K, D: p.D, Gating: p.Gating, GatingIntercepts: p.GatingIntercepts, Tree: p.Tree,
		Sigma: []float64{1}}
}

// Predictors writes ⟨a_ic, x⟩ + b_ic for each row of the block: dst is K·M rows of b.N values.
func (p *VectorParams) Predictors(dst []float64, b *Block) {
	Linear(dst[:p.K*p.M*b.N], p.Regressors, p.RegressorIntercepts, b)
}

// Coordinate returns the mixture of coordinate c alone: that of the marginal density of y_c
// given x where the noise is normal, and with normal noise of the same scale where it is another.
func (p *VectorParams) Coordinate(c int) *Params {
	out := p.OfGate().Clone()
	out.Regressors = make([]float64, p.K*p.D)
	if p.RegressorIntercepts != nil {
		out.RegressorIntercepts = make([]float64, p.K)
	}
	for i := range p.K {
		copy(out.Regressor(i), p.Regressor(i, c))
		if p.RegressorIntercepts != nil {
			out.RegressorIntercepts[i] = p.RegressorIntercepts[i*p.M+c]
		}
	}
	out.Sigma = make([]float64, len(p.Noise))
	for i, n := range p.Noise {
		if out.Sigma[i] = n.Scale[c]; p.Family == "" {
			out.Sigma[i] = math.Sqrt(n.Covariance().At(c, c))
		}
	}
	return out
}

// JoinCoordinates returns the mixture with these mixtures of its coordinates, which have
// one gate, that of the first, and with this noise; nil is that of every coordinate, independent.
func JoinCoordinates(coordinates []*Params, noise []VectorNoise) *VectorParams {
	first := coordinates[0].Clone()
	p := NewVectorParams(first.K, first.D, len(coordinates), false)
	p.Gating, p.GatingIntercepts, p.Tree = first.Gating, first.GatingIntercepts, first.Tree
	if first.RegressorIntercepts != nil {
		p.RegressorIntercepts = make([]float64, p.K*p.M)
	}
	if noise == nil {
		noise = make([]VectorNoise, len(first.Sigma))
		for i := range noise {
			for _, q := range coordinates {
				noise[i].Scale = append(noise[i].Scale, q.SigmaOf(i))
			}
		}
	}
	p.Noise = noise
	for c, q := range coordinates {
		for i := range p.K {
			copy(p.Regressor(i, c), q.Regressor(i))
			if p.RegressorIntercepts != nil {
				p.RegressorIntercepts[i*p.M+c] = q.RegressorIntercepts[i]
			}
		}
	}
	return p.Clone()
}

// Each returns p with every mixture of a coordinate replaced by what fn makes of it: the
// same for the gate of all, and with as many experts. Noise of their own goes with the
// experts by perm, expert i becoming perm[i]; nil leaves it.
func (p *VectorParams) Each(fn func(*Params) *Params, perm []int) *VectorParams {
	coordinates := make([]*Params, p.M)
	for c := range coordinates {
		coordinates[c] = fn(p.Coordinate(c))
	}
	noise := slices.Clone(p.Noise)
	if len(noise) > 1 && perm != nil {
		for i, j := range perm {
			noise[j] = p.Noise[i]
		}
	}
	out := JoinCoordinates(coordinates, noise)
	out.Family = p.Family
	return out
}

// lower returns u_cb, b < c.
func (n VectorNoise) lower(c, b int) float64 {
	if n.Lower == nil {
		return 0
	}
	return n.Lower[c*(c-1)/2+b]
}

// LowerAt returns c and b of the u_cb that stands in that place of Lower.
func LowerAt(place int) (c, b int) {
	for c, b = 1, place; b >= c; c++ {
		b -= c
	}
	return c, b
}

// Unit returns U, unit lower triangular, M×M in rows.
func (n VectorNoise) Unit() []float64 {
	m := len(n.Scale)
	u := make([]float64, m*m)
	for c := range m {
		for b := range c {
			u[c*m+b] = n.lower(c, b)
		}
		u[c*m+c] = 1
	}
	return u
}

// Covariance returns Σ.
func (n VectorNoise) Covariance() *mat.SymDense {
	m := len(n.Scale)
	l := make([]float64, m*m) // U⁻¹·diag(s): row c is s_c·e_c − Σ_{b<c} u_cb·row b
	for c := range m {
		l[c*m+c] = n.Scale[c]
		for b := range c {
			for j := range b + 1 {
				l[c*m+j] -= n.lower(c, b) * l[b*m+j]
			}
		}
	}
	out := mat.NewSymDense(m, nil)
	for c := range m {
		for b := range c + 1 {
			sum := 0.0
			for j := range b + 1 {
				sum += l[c*m+j] * l[b*m+j]
			}
			out.SetSym(c, b, sum)
		}
	}
	return out
}

// VectorNoiseOf returns the noise with covariance Σ, diagonal where full is false; false
// where Σ is not positive definite.
func VectorNoiseOf(cov mat.Symmetric, full bool) (VectorNoise, bool) {
	m := cov.SymmetricDim()
	n := NewVectorNoise(m, full)
	if !full {
		for c := range m {
			n.Scale[c] = math.Sqrt(cov.At(c, c))
			if !(n.Scale[c] > 0) || math.IsInf(n.Scale[c], 0) {
				return n, false
			}
		}
		return n, true
	}
	l := make([]float64, m*m) // the Cholesky factor of Σ
	for c := range m {
		for b := range c + 1 {
			v := cov.At(c, b)
			for j := range b {
				v -= l[c*m+j] * l[b*m+j]
			}
			if b == c {
				l[c*m+c] = math.Sqrt(v)
				if !(l[c*m+c] > 0) || math.IsInf(l[c*m+c], 0) {
					return n, false
				}
				n.Scale[c] = l[c*m+c]
				continue
			}
			l[c*m+b] = v / l[b*m+b]
		}
	}
	// Row c of U solves Σ_{b<c} u_cb·l_b = −(l_c1 … l_c,c−1) by substitution from the right.
	for c := range m {
		u := n.Lower[c*(c-1)/2 : c*(c+1)/2]
		for b := c - 1; b >= 0; b-- {
			v := -l[c*m+b]
			for j := b + 1; j < c; j++ {
				v -= u[j] * l[j*m+b]
			}
			u[b] = v / l[b*m+b]
		}
	}
	return n, true
}

// SameFeatures says whether two tables have the same features, and the same columns with a role, in the
// same rows.
func SameFeatures(a, b Rows) (bool, error) {
	n, d := a.Dims()
	if m, e := b.Dims(); m != n || e != d {
		return false, nil
	}
	var room, own Room
	for i := range Blocks(a) {
		one, err := a.Block(i, &room)
		if err != nil {
			return false, err
		}
		other, err := b.Block(i, &own)
		if err != nil || !slices.Equal(one.X, other.X) {
			return false, err
		}
		for r := range one.Role {
			if !slices.Equal(one.Role[r], other.Role[r]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// Beside returns the rows of tables whose features and weights are the same, with the targets
// of all: a block's Y has a column for every table. It panics where their sizes differ.
func Beside(tables []Rows) Rows {
	n, d := tables[0].Dims()
	held := true
	for _, t := range tables {
		if m, e := t.Dims(); m != n || e != d {
			panic(fmt.Sprintf("model: tables of %d×%d and %d×%d side by side", n, d, m, e))
		}
		_, ok := t.(*Data)
		held = held && ok
	}
	if !held {
		return &beside{tables: tables}
	}
	out := &Data{N: n, D: d, Blocks: slices.Clone(tables[0].(*Data).Blocks)}
	for i := range out.Blocks {
		b := &out.Blocks[i]
		b.Y = make([]float64, 0, len(tables)*b.N)
		for _, t := range tables {
			b.Y = append(b.Y, t.(*Data).Blocks[i].Y...)
		}
	}
	return out
}

// beside is tables side by side of which some are not in memory.
type beside struct{ tables []Rows }

// besideRoom is where blocks of the tables are read, and their targets joined.
type besideRoom struct {
	rooms []Room
	block Block
	y     []float64
}

func (r *beside) Dims() (n, d int) { return r.tables[0].Dims() }

func (r *beside) Block(i int, room *Room) (*Block, error) {
	at, ok := room.Reader.(*besideRoom)
	if !ok {
		at = &besideRoom{rooms: make([]Room, len(r.tables))}
		room.Reader = at
	}
	at.y = at.y[:0]
	for c, t := range r.tables {
		b, err := t.Block(i, &at.rooms[c])
		if err != nil {
			return nil, err
		}
		if c == 0 {
			at.block = *b
		}
		at.y = append(at.y, b.Y...)
	}
	at.block.Y = at.y
	return &at.block, nil
}
