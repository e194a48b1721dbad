package moment

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/solver"
)

// DesignRows is the most rows that the first of two rounds is made from: [LevelRows], or as many as have 2^21 features,
// which parts of a table carry with them; 0 where that is below 16 for each feature, d > 362: no design is told from so
// few.
func DesignRows(d int) int {
	const most, least = 1 << 21, 16
	if rows := most / d; rows >= least*d {
		return min(LevelRows, rows)
	}
	return 0
}

// designOf is the first of two rounds: the regressors' products and the proportions by o, which is of orthonormal
// regressors in equal proportions, from at most [DesignRows] rows. It takes T̂3, and T̂4 where g is even. It is nil
// where they cannot be told.
func designOf(ctx context.Context, e *Evidence, p *problem.Problem, o *solver.Optimal) (*solver.Design, error) {
	k, d := p.Shape.K, p.Shape.D
	order := 3
	if !o.Has(order) {
		order = 4
	}
	if k == 1 || d <= 2*k-1 || !o.Has(2) || !o.Has(order) || DesignRows(d) == 0 {
		return nil, nil
	}
	rows := model.Part(p.Rows, DesignRows(d))
	if known := e.want.Known; known != nil {
		if rows = known.Rows; rows == nil {
			return nil, nil
		}
	}
	sum := func(order int, basis *mat.Dense) (*tensor.Transformed, error) {
		return tensor.SumTransformed(ctx, rows, o, order, basis, p.Inputs.Centre, p.Threads)
	}
	second, err := sum(2, nil)
	if err != nil {
		return nil, err
	}
	s, err := leadingSubspace(second.T2(), p.Inputs, k)
	if err != nil || !s.positive() {
		return nil, err
	}
	sums, err := sum(order, s.Basis)
	if err != nil {
		return nil, err
	}
	rng := stream.New(1, stream.Spectral, 0) // whatever the seed: parts of a table know of none
	var est *Estimate
	if order == 3 {
		t3 := sums.T3()
		t3.ScaleModes(s.whitening())
		found := t3.Orthogonal(rng, restarts)
		est = s.estimate(found.Vectors, found.Agreeing)
	} else {
		est = orthogonal(sums.T4(), s, rng)
	}
	gram := mat.NewSymDense(k, nil)
	for i := range k {
		for j := range i + 1 {
			gram.SetSym(i, j, floats.Dot(est.Params.Regressor(i), est.Params.Regressor(j)))
		}
	}
	return &solver.Design{K: k, D: d, Gram: gram, Proportions: est.Proportions}, nil
}
