package tensor_test

import (
	"bytes"
	"encoding"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
)

// few is a block of n rows of d features, with weights or without.
func few(rng *rand.Rand, n, d int, weights bool) *model.Block {
	b := &model.Block{N: n, X: randomRows(rng, n, d), Y: randomRows(rng, 1, n)}
	if weights {
		for range n {
			b.Role[model.Weights] = append(b.Role[model.Weights], .5+rng.Float64())
		}
	}
	return b
}

// each calls fn with every row of a block and its weight.
func each(b *model.Block, fn func(w, y float64, x []float64)) {
	x := make([]float64, len(b.X)/b.N)
	for r := range b.N {
		for j := range x {
			x[j] = b.X[j*b.N+r]
		}
		w := 1.0
		if b.Role[model.Weights] != nil {
			w = b.Role[model.Weights][r]
		}
		fn(w, b.Y[r], x)
	}
}

// TestUnitWeights: rows of weight 1 have the same sums as rows without weights, to the last
// bit, though these are not multiplied by it.
func TestUnitWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	for _, d := range []int{1, 2, 3, 4, 5, 11} {
		var room tensor.Scratch
		none, ones := tensor.NewSecond(d), tensor.NewSecond(d)
		for _, n := range []int{256, 1, 13} {
			b := few(rng, n, d, false)
			none.Add(b, &room)
			b.Role[model.Weights] = make([]float64, n)
			floats.AddConst(1, b.Role[model.Weights])
			ones.Add(b, &room)
		}
		if !reflect.DeepEqual(none, ones) {
			t.Errorf("d = %d: %+v without weights, %+v of ones", d, none, ones)
		}
	}
}

// TestMomentsOfFewRows: what is made of the sums of seven rows is what its formula says of the
// rows, to rounding; and the sums of features in other units are those of the features so
// multiplied.
func TestMomentsOfFewRows(t *testing.T) {
	const n, d, delta = 7, 3, .7
	rng := rand.New(rand.NewPCG(8, 1))
	centre, units := []float64{.3, -.2, .5}, []float64{2, -.5, 3}
	for _, weights := range []bool{false, true} {
		b := few(rng, n, d, weights)
		var room tensor.Scratch
		s := tensor.NewSecond(d)
		s.Add(b, &room)

		var total, squares, meanY, meanQ float64
		each(b, func(w, y float64, _ []float64) { total += w; squares += w * w })
		mean, yx := make([]float64, d), make([]float64, d)
		cubes, fours := make([]float64, d), make([]float64, d)
		each(b, func(w, y float64, x []float64) {
			meanY += w * y / total
			meanQ += w * (y*y + delta*y) / total
			for j, v := range x {
				mean[j] += w * v / total
				yx[j] += w * y * v / total
				cubes[j] += w * math.Pow(v, 3)
				fours[j] += w * math.Pow(v, 4)
			}
		})
		covariance, yxx, t2 := mat.NewDense(d, d, nil), mat.NewDense(d, d, nil), mat.NewDense(d, d, nil)
		each(b, func(w, y float64, x []float64) {
			outer := func(m *mat.Dense, scale float64, about []float64) {
				v := mat.NewVecDense(d, nil)
				floats.SubTo(v.RawVector().Data, x, about)
				m.RankOne(m, scale*w/total, v, v)
			}
			outer(covariance, 1, mean)
			outer(yxx, y-meanY, make([]float64, d))
			outer(t2, y*y+delta*y-meanQ, centre)
		})
		near := func(what string, got, want []float64) {
			t.Helper()
			if !floats.EqualApprox(got, want, 1e-12) {
				t.Errorf("weights %v: %s %v, want %v", weights, what, got, want)
			}
		}
		near("mean", s.Mean(), mean)
		near("mean of y·x", s.YX(), yx)
		near("cubes", s.Cubes, cubes)
		near("fourth powers", s.Fours, fours)
		near("rows of equal worth", []float64{s.Effective()}, []float64{total * total / squares})
		for what, m := range map[string][2]mat.Matrix{
			"covariance": {s.Covariance(), covariance}, "E[y·S2]": {s.YXX(), yxx}, "T2": {s.T2(delta, centre), t2},
		} {
			if !mat.EqualApprox(m[0], m[1], 1e-12) {
				t.Errorf("weights %v: %s\n%v, want\n%v", weights, what, mat.Formatted(m[0]), mat.Formatted(m[1]))
			}
		}

		other := &model.Block{N: n, X: append([]float64(nil), b.X...), Y: b.Y, Role: b.Role}
		for j, c := range units {
			floats.Scale(c, other.X[j*n:(j+1)*n])
		}
		direct, scaled := tensor.NewSecond(d), s.Scaled(units)
		direct.Add(other, &room)
		for p := range direct.XX {
			near("Σ y^p·x in other units", scaled.X[p], direct.X[p])
			near("Σ y^p·x·xᵀ in other units", scaled.XX[p], direct.XX[p])
		}
		near("cubes in other units", scaled.Cubes, direct.Cubes)
		near("fourth powers in other units", scaled.Fours, direct.Fours)
		near("Σ y^p in other units", scaled.Y[:], direct.Y[:])
		if scaled.N != n || scaled.W2 != direct.W2 {
			t.Errorf("in other units there are %d rows and %v squared weights", scaled.N, scaled.W2)
		}
	}
}

// adding are sums of any kind.
type adding interface {
	encoding.BinaryMarshaler
	Add(*model.Block, *tensor.Scratch)
	Reset()
}

// kinds makes empty sums of every kind over d features.
func kinds(d int) map[string]func() adding {
	u := mat.NewDense(d, 2, randomRows(rand.New(rand.NewPCG(8, 2)), d, 2))
	centre := make([]float64, d)
	centre[0] = .25
	return map[string]func() adding{
		"second": func() adding { return tensor.NewSecond(d) },
		"fourth": func() adding { return tensor.NewFourth(u, centre) },
		"T2":     func() adding { return tensor.NewTransformed(naive{}, 2, d, nil, nil) },
		"T3":     func() adding { return tensor.NewTransformed(naive{}, 3, d, u, nil) },
		"T4":     func() adding { return tensor.NewTransformed(naive{}, 4, d, u, centre) },
		"like":   func() adding { return tensor.NewFourth(u, centre).Like() },
		"T like": func() adding { return tensor.NewTransformed(naive{}, 3, d, nil, centre).Like() },
	}
}

// TestScratch: blocks of any sizes one after the other in the same room give the same bytes as
// each in room of its own, for sums of all kinds in turn; sums that are emptied are as new; and
// rows in room that was large enough once take no more.
func TestScratch(t *testing.T) {
	const d = 4
	rng := rand.New(rand.NewPCG(8, 3))
	var blocks []*model.Block
	for _, n := range []int{8, 9, 3, 12, 40, 41} {
		blocks = append(blocks, few(rng, n, d, n%2 == 1))
	}
	var all tensor.Scratch
	for name, empty := range kinds(d) {
		var own tensor.Scratch // of this kind, which does not find room that another made
		shared, apart, grown := empty(), empty(), empty()
		for _, b := range blocks {
			shared.Add(b, &all)
			grown.Add(b, &own)
			apart.Add(b, new(tensor.Scratch))
			want := bytesOf(t, apart)
			if !bytes.Equal(bytesOf(t, shared), want) || !bytes.Equal(bytesOf(t, grown), want) {
				t.Fatalf("%s: %d rows in room that was used give other sums", name, b.N)
			}
		}
		last := blocks[len(blocks)-1]
		if n := testing.AllocsPerRun(5, func() { grown.Add(last, &own) }); n != 0 {
			t.Errorf("%s: %v allocations for rows that there is room for", name, n)
		}
		grown.Reset()
		if !bytes.Equal(bytesOf(t, grown), bytesOf(t, empty())) {
			t.Errorf("%s: sums that are emptied are not as new", name)
		}
	}
}

// TestProjectionWithoutCentre: T2 of a transform on a subspace is Uᵀ·T2·U where no centre is
// given too.
func TestProjectionWithoutCentre(t *testing.T) {
	const d, m = 4, 2
	rng := rand.New(rand.NewPCG(8, 4))
	b, u := few(rng, 30, d, true), mat.NewDense(d, m, randomRows(rng, d, m))
	t2 := func(u *mat.Dense) *mat.SymDense {
		s := tensor.NewTransformed(naive{}, 2, d, u, nil)
		s.Add(b, new(tensor.Scratch))
		return s.T2()
	}
	var want mat.Dense
	want.Product(u.T(), t2(nil), u)
	if got := t2(u); !mat.EqualApprox(got, &want, 1e-12) {
		t.Errorf("%v, want %v", mat.Formatted(got), mat.Formatted(&want))
	}
}

// TestSizes: there are C(m+r−1, r) monomials of degree r in m variables, and as many entries of
// a symmetric tensor.
func TestSizes(t *testing.T) {
	for m := 1; m <= 7; m++ {
		of := func(r int) int { return int(new(big.Int).Binomial(int64(m+r-1), int64(r)).Int64()) }
		check := func(what string, r int, lists ...[]float64) {
			t.Helper()
			for _, list := range lists {
				if len(list) != of(r) {
					t.Errorf("%s over %d dimensions: %d entries, want %d", what, m, len(list), of(r))
				}
			}
		}
		check("a tensor of order 3", 3, tensor.NewSym3(m).Data)
		check("a tensor of order 4", 4, tensor.NewSym4(m).Data)
		s, f := tensor.NewSecond(m), tensor.NewFourth(eye(m), nil)
		check("second sums", 2, s.XX[:]...)
		check("fourth sums", 2, f.Two[:]...)
		check("fourth sums", 4, f.Four[:]...)
		for r := 2; r <= 4; r++ {
			g := tensor.NewTransformed(naive{}, r, m, nil, nil)
			check("sums of a transform", r, g.High[:]...)
			check("sums of a transform", r-2, g.Low[:]...)
		}
	}
}

// TestScaleModes: the tensor of v seen through a diagonal change of basis is that of the
// changed v.
func TestScaleModes(t *testing.T) {
	v, s := []float64{1, -2, 3}, []float64{2, .5, -1.5}
	sv := make([]float64, 3)
	floats.MulTo(sv, s, v)
	got3, want3 := tensor.NewSym3(3), tensor.NewSym3(3)
	got3.AddRankOne(.3, v)
	got3.ScaleModes(s)
	want3.AddRankOne(.3, sv)
	got4, want4 := tensor.NewSym4(3), tensor.NewSym4(3)
	got4.AddRankOne(.3, v)
	got4.ScaleModes(s)
	want4.AddRankOne(.3, sv)
	if !floats.EqualApprox(got3.Data, want3.Data, 1e-12) || !floats.EqualApprox(got4.Data, want4.Data, 1e-12) {
		t.Errorf("%v and %v, want %v and %v", got3.Data, got4.Data, want3.Data, want4.Data)
	}
}
