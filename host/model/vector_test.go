package model

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestVectorNoise: U·Σ·Uᵀ = diag(s²), and the noise of Σ is the one that Σ came from, whatever
// the coordinates' sizes.
func TestVectorNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 61))
	for m := 1; m <= 4; m++ {
		n := NewVectorNoise(m, true)
		for c := range n.Scale {
			n.Scale[c] = []float64{1e-6, 1, 1e6, 3}[c]
		}
		for i := range n.Lower {
			n.Lower[i] = rng.NormFloat64() // of sizes that make the coordinates far from independent
		}
		for c := range m {
			for b := range c {
				n.Lower[c*(c-1)/2+b] *= n.Scale[c] / n.Scale[b]
			}
		}
		cov := n.Covariance()
		unit := mat.NewDense(m, m, n.Unit())
		var left, both mat.Dense
		left.Mul(unit, cov)
		both.Mul(&left, unit.T())
		for c := range m {
			for b := range m {
				want := 0.0
				if c == b {
					want = n.Scale[c] * n.Scale[c]
				}
				// Rounding, in units of the two coordinates.
				if diff := (both.At(c, b) - want) / n.Scale[c] / n.Scale[b]; diff > 1e-12 || diff < -1e-12 {
					t.Errorf("m = %d: entry (%d, %d) of UΣUᵀ is %v, want %v", m, c, b, both.At(c, b), want)
				}
			}
		}
		again, ok := VectorNoiseOf(cov, true)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-10*math.Abs(b) }
		if !ok || !slices.EqualFunc(again.Scale, n.Scale, near) || !slices.EqualFunc(again.Lower, n.Lower, near) {
			t.Errorf("m = %d: %v, want %v", m, again, n)
		}
	}
	if _, ok := VectorNoiseOf(mat.NewSymDense(2, []float64{1, 2, 2, 1}), true); ok {
		t.Error("a matrix that is no covariance has a noise")
	}
	if _, ok := VectorNoiseOf(mat.NewSymDense(2, []float64{1, 2, 2, 0}), false); ok {
		t.Error("a variance below 0 has a noise")
	}
	if _, ok := VectorNoiseOf(mat.NewSymDense(2, []float64{1, 0, 0, 0}), true); ok {
		t.Error("a variance of 0 has a noise")
	}
}

// TestCoordinates: the coordinates' mixtures make the mixture again, in another order of the
// experts too.
func TestCoordinates(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 61))
	p := NewVectorParams(3, 2, 2, true)
	p.RegressorIntercepts = make([]float64, 6)
	p.Noise = append(p.Noise, NewVectorNoise(2, true), NewVectorNoise(2, true))
	for i, v := range [][]float64{p.Regressors, p.RegressorIntercepts, p.Gating, p.Noise[0].Lower, p.Noise[1].Lower, p.Noise[2].Lower} {
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		p.Noise[i%3].Scale[0] = float64(i + 1)
	}
	same := JoinCoordinates([]*Params{p.Coordinate(0), p.Coordinate(1)}, p.Noise)
	if !slices.Equal(same.Regressors, p.Regressors) || !slices.Equal(same.RegressorIntercepts, p.RegressorIntercepts) || !slices.Equal(same.Gating, p.Gating) {
		t.Errorf("%+v, want %+v", same, p)
	}
	perm := []int{2, 0, 1}
	moved := p.Each(func(q *Params) *Params { return q.Relabel(perm) }, perm)
	for i, j := range perm {
		if !slices.Equal(moved.Regressor(j, 1), p.Regressor(i, 1)) || moved.NoiseOf(j).Scale[0] != p.NoiseOf(i).Scale[0] || moved.Coordinate(1).Sigma[j] != p.Coordinate(1).Sigma[i] {
			t.Errorf("expert %d did not become expert %d", i, j)
		}
	}
	if a, b := moved.OfGate().Gate(0), p.Coordinate(0).Relabel(perm).Gate(0); !slices.Equal(a, b) {
		t.Errorf("the gate has %v, want %v", a, b)
	}
}

// blocksOnly is rows that are not held in memory, as far as anybody can tell.
type blocksOnly struct{ *Data }

// TestBeside: targets of several tables stand side by side, whether the tables are in memory
// or not; features and weights are those of the first.
func TestBeside(t *testing.T) {
	table := func(scale float64) *Data {
		d := &Data{N: 300, D: 1}
		for left := 300; left > 0; left -= BlockRows {
			b := Block{N: min(left, BlockRows)}
			for i := range b.N {
				b.X, b.Y, b.Role[Weights] = append(b.X, scale+float64(i)), append(b.Y, scale*float64(i+left)), append(b.Role[Weights], scale+float64(i%2))
			}
			d.Blocks = append(d.Blocks, b)
		}
		return d
	}
	a, b := table(1), table(-2)
	for name, rows := range map[string]Rows{"in memory": Beside([]Rows{a, b}), "elsewhere": Beside([]Rows{a, blocksOnly{b}})} {
		var room Room
		for i := range 2 {
			got, err := rows.Block(i, &room)
			if err != nil || !slices.Equal(got.Y, slices.Concat(a.Blocks[i].Y, b.Blocks[i].Y)) || !slices.Equal(got.X, a.Blocks[i].X) || !slices.Equal(got.Role[Weights], a.Blocks[i].Role[Weights]) {
				t.Errorf("%s: block %d is %v, error %v", name, i, got, err)
			}
		}
		if Held(rows) != (name == "in memory") {
			t.Errorf("%s: held %v", name, Held(rows))
		}
		each, err := TotalsOfEach(rows, 2)
		for c, one := range []Rows{a, b} {
			want, _ := TotalsOf(one)
			first, _ := TotalsOf(a)
			want.Weight, want.Largest = 150+300, first.Largest // of the first table
			if err != nil || !reflect.DeepEqual(each[c], want) {
				t.Errorf("%s: totals %v, want %v, error %v", name, each[c], want, err)
			}
		}
	}
}
