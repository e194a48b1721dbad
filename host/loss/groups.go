package loss

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// groups are those of a table's rows, each of which has one expert:
//
//	L = Σ_g w_g·log Σ_i P(z=i|x_g)·Π_t f(y_gt; m_i(x_gt), ψ_i)
//
// with w_g the weight of the group's rows, which is the same of all. Sums over the rows take two passes, in the rows'
// order: the first adds up every group's log f, the second goes over the rows with the posteriors of their groups.
type groups struct {
	of     [][]int     // of every block the groups of its rows, counted from 0 in the order in which they first come
	speaks [][]float64 // of every block 1 for the first row of a group, which speaks for it to the gate, else 0
	weight []float64   // of every group
	rows   []int       // of every group
	k      int

	at      []int     // room for where the posteriors of a block's rows begin
	logf    []float64 // room for log f of a block
	post    []float64 // k of every group: Σ_t log f, then with the gate's scores the posterior
	prior   []float64 // log Σ_i exp s_i of the gate's scores
	density []float64 // log of each group's density, of the last first pass
	loglik  float64   // likewise, of all

	// Of every group, expert by expert: Σ_t of the scores by a_i and by ψ_i; then the gate's probabilities and
	// features. Room of the information, nil where there never was any.
	score, p, x []float64
	each        int // values of an expert in score
}

// groupsOf finds the groups of rows whose blocks have a column of them, nil where they have not, or each has one row.
// Rows of a group need not stand beside each other.
func groupsOf(rows model.Rows, k int) *groups {
	n, _ := rows.Dims()
	if n == 0 {
		return nil
	}
	first, err := rows.Block(0, new(model.Room))
	if err != nil || first.Role[model.Groups] == nil { // the first pass over the rows says what is wrong with them
		return nil
	}
	s := &groups{k: k, at: make([]int, model.BlockRows), logf: make([]float64, k*model.BlockRows)}
	places := make(map[float64]int)
	err = model.InOrder(context.Background(), rows, func(b *model.Block) error {
		of, speaks := make([]int, b.N), make([]float64, b.N)
		for t, id := range b.Role[model.Groups] {
			g, known := places[id]
			if !known {
				g = len(places)
				places[id], speaks[t] = g, 1
				s.weight, s.rows = append(s.weight, b.Weight(t)), append(s.rows, 0)
			}
			of[t] = g
			s.rows[g]++
		}
		s.of, s.speaks = append(s.of, of), append(s.speaks, speaks)
		return nil
	})
	if err != nil || len(s.weight) == n {
		return nil
	}
	s.post, s.prior = make([]float64, k*len(s.weight)), make([]float64, len(s.weight))
	s.density = make([]float64, len(s.weight))
	return s
}

// takeGroups takes the groups' posteriors and the log-likelihood at p, in a pass over the rows.
func (s *passes) takeGroups(ctx context.Context, p *model.Params) error {
	g := s.groups
	clear(g.post)
	w, block := s.workOf(0), 0
	constant := 0.0
	err := model.InOrder(ctx, s.rows, func(b *model.Block) error {
		w.Given(p, b)
		if err := s.residuals(ctx, w, p, block, b); err != nil {
			return err
		}
		logf := g.logf[:s.k*b.N]
		w.Densities(logf, b.Y, w.res)
		constant = w.LogConstant()
		for t, of := range g.of[block] {
			speaks := g.speaks[block][t] == 1
			if speaks {
				g.prior[of] = w.LogPrior[t]
			}
			for i := range s.k {
				v := logf[i*b.N+t]
				if speaks {
					v += w.Scores[i*b.N+t]
				}
				g.post[of*s.k+i] += v
			}
		}
		block++
		return nil
	})
	g.loglik = 0
	for at, weight := range g.weight {
		joint := mixture.SharePosterior(g.post[at*s.k : (at+1)*s.k])
		g.density[at] = joint - g.prior[at] + constant*float64(g.rows[at])
		if weight > 0 {
			g.loglik += weight * g.density[at]
		}
	}
	return err
}

// observeGroups is observe of rows in groups, whose posteriors have been taken.
func (s *passes) observeGroups(w *work, block int, b *model.Block) {
	g := s.groups
	w.Densities(g.logf[:s.k*b.N], b.Y, w.res)
	at := g.at[:b.N]
	for t, of := range g.of[block] {
		at[t] = of * s.k
	}
	w.Share(g.post, at, g.speaks[block])
}

// sumGroups is pass of rows in groups.
func (s *passes) sumGroups(ctx context.Context, p *model.Params, want quantity) error {
	if err := s.takeGroups(ctx, p); err != nil {
		return err
	}
	s.chunks[0].loglik = s.groups.loglik
	if want == 0 {
		return nil
	}
	if want&ofInformation != 0 {
		s.groups.begin(s.layout)
	}
	block := 0
	return model.InOrder(ctx, s.rows, func(b *model.Block) error {
		w := s.workOf(0)
		if err := s.observe(ctx, w, p, block, b); err != nil {
			return err
		}
		if err := s.slopes(ctx, w, p, b, want); err != nil {
			return err
		}
		s.chunks[0].parts.block(w, want)
		if want&ofInformation != 0 {
			s.groups.addScores(s.layout, w, block)
		}
		block++
		return nil
	})
}

// begin readies the sums of the groups' scores.
func (g *groups) begin(o *layout) {
	n := len(g.weight)
	g.each = o.da + o.own
	if g.score == nil {
		g.score, g.p, g.x = make([]float64, n*g.k*g.each), make([]float64, n*g.k), make([]float64, n*o.dw)
	}
	clear(g.score)
}

// addScores adds the complete-data scores of a block's rows to those of their groups, after the information's parts
// have differentiated.
func (g *groups) addScores(o *layout, w *work, block int) {
	for i := range g.k {
		score := w.LinearScore(i)
		for t, of := range g.of[block] {
			to := g.score[(of*g.k+i)*g.each:]
			if o.free.Regressors {
				for c, j := range o.expert {
					to[c] += score[t] * w.Cols[j][t]
				}
			}
			if o.free.Sigma {
				for q := range o.own {
					to[o.da+q] += w.OwnScoreOf(i, q)[t]
				}
			}
			if g.speaks[block][t] == 1 {
				g.p[of*g.k+i] = w.PriorOf(i)[t]
				for c, j := range o.gate {
					g.x[of*o.dw+c] = w.Cols[j][t]
				}
			}
		}
	}
}

// takeMissing takes off h what not knowing the groups' experts takes off the information of the complete data, times
// factor, see [mixture.TakeMissing].
func (g *groups) takeMissing(h *mat.SymDense, o *layout, factor float64) {
	n := len(o.parameters)
	mean, scores := mat.NewVecDense(n, nil), make([]*mat.VecDense, g.k)
	for i := range scores {
		scores[i] = mat.NewVecDense(n, nil)
	}
	for at, weight := range g.weight {
		for i, s := range scores {
			s.Zero()
			g.scoreOf(s.RawVector().Data, o, at, i)
		}
		mixture.TakeMissing(h, factor*weight, g.post[at*g.k:(at+1)*g.k], scores, mean)
	}
}

// scoreOf writes the score of a group's complete data where its expert is i to dst, zeros.
func (g *groups) scoreOf(dst []float64, o *layout, at, i int) {
	score := g.score[(at*g.k+i)*g.each : (at*g.k+i+1)*g.each]
	if from := o.regressor(i); from >= 0 {
		copy(dst[from:from+o.da], score)
	}
	for j := range o.gates {
		from := o.row(j)
		if from < 0 {
			continue
		}
		c := -g.p[at*g.k+j]
		if i == j {
			c++
		}
		floats.AddScaled(dst[from:from+o.dw], c, g.x[at*o.dw:(at+1)*o.dw])
	}
	if o.free.Sigma {
		for q := range o.own {
			dst[o.noise(q*o.levels+min(i, o.levels-1))] = score[o.da+q]
		}
	}
}

// missing takes off h, the information of the rows' complete data times factor, what the groups' take off it.
func (s *passes) missing(h *mat.SymDense, factor float64) {
	if s.groups != nil {
		s.groups.takeMissing(h, s.layout, factor)
	}
}

// GroupValues is what a mixture says of groups, in the order in which they first come.
type GroupValues struct {
	Posteriors []float64 // K values of each
	LogDensity []float64 // log Σ_i P(z=i|x_g)·Π_t f(y_gt; m_i(x_gt), ψ_i)
	Weight     []float64
}
