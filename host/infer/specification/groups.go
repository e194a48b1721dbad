package specification

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/stream"
)

// GroupTests are [Tests] of rows in groups, all rows of each of which have one expert. With the posterior r_g of a
// row's group instead of the row's own, and one row's worth of its gate,
//
//	r_gi·ψ(e_it),   (r_gj − p_gj)·h(x_gt)/n_g,   …
//
// the terms of a row have mean 0 given x as they have it without groups, and those of the scores add up to the score of
// the group. Terms of one group depend on each other: the sums are over groups, C is the covariance of a group's sums,
// and n the number of groups. Instead of the test of neighbours there is one of [GroupSums].
func GroupTests(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params, free loss.Free,
	seed uint64, workers int) (Tested, error) {
	s, err := NewSteps(act, p, free)
	if err != nil {
		return Tested{}, err
	}
	squares, err := s.Squares(ctx, rows)
	if err != nil {
		return Tested{}, err
	}
	s.Scale(squares)
	sums, drawn, err := s.SumGroups(ctx, rows, 0, nil, seed)
	if err != nil {
		return Tested{}, err
	}
	return s.GroupTests(ctx, sums, drawn, seed, workers)
}

// AllGroups is what the draws of a part need to know of the groups of all parts.
type AllGroups struct {
	Prior        []float64 // Σ p_i, of every expert
	Weight       float64   // their number, or the sum of their weights
	Rows, Groups int
}

// NoGroupSums returns the sums of no groups.
func (s *Steps) NoGroupSums() *RowSums {
	out := s.terms.newSums()
	out.Groups = new(GroupSums)
	return out
}

// SumGroups returns the sums of the terms over the groups of rows, of which first rows of the table come before them,
// and groups drawn; all is nil where there are no others.
func (s *Steps) SumGroups(ctx context.Context, rows model.Rows, first int, all *AllGroups,
	seed uint64) (*RowSums, *GroupDraws, error) {
	table, err := byGroup(ctx, rows, first)
	if err != nil {
		return nil, nil, err
	}
	m := &groupTerms{terms: s.terms, table: table}
	sums, prior, err := m.sums(ctx)
	if err != nil {
		return nil, nil, err
	}
	if all == nil {
		all = m.all(prior)
	}
	return sums, m.sample(prior, all, m.draws(all), seed), nil
}

// GroupTests makes the tests of the sums over all groups, with targets for the groups drawn, as [Steps.Tests]
// does of rows.
func (s *Steps) GroupTests(ctx context.Context, sums *RowSums, drawn *GroupDraws, seed uint64,
	workers int) (Tested, error) {
	m := &groupTerms{terms: s.terms, table: drawn.table}
	return m.tests(ctx, groupTargets{m, drawn, seed, workers}, sums, float64(drawn.wanted))
}

// groupTable is a table by its groups.
type groupTable struct {
	d      int
	x      []float64 // row-major
	y      []float64
	role   model.ByRole[[]float64] // [model.OfLaw], nil where the table has none
	groups [][]int                 // rows of every group, in the order in which the groups first come
	weight []float64               // of every group
	block  []int                   // of the table, in which every group begins
}

// byGroup is the table of rows before which first others come.
func byGroup(ctx context.Context, rows model.Rows, first int) (*groupTable, error) {
	_, d := rows.Dims()
	t, places := &groupTable{d: d}, make(map[float64]int)
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		for r, id := range b.Role[model.Groups] {
			g, known := places[id]
			if !known {
				g = len(t.groups)
				places[id] = g
				t.groups, t.weight = append(t.groups, nil), append(t.weight, b.Weight(r))
				t.block = append(t.block, (first+len(t.y))/model.BlockRows)
			}
			t.groups[g] = append(t.groups[g], len(t.y))
			t.y = append(t.y, b.Y[r])
			for j := range d {
				t.x = append(t.x, b.Col(j)[r])
			}
			for _, role := range model.OfLaw {
				if values := b.Role[role]; values != nil {
					t.role[role] = append(t.role[role], values[r])
				}
			}
		}
		return nil
	})
	return t, err
}

// sharing is what rows of a block have of their groups.
type sharing struct {
	posts  []float64 // k of every group
	at     []int     // where those of every row begin
	speaks []float64 // 1/n_g: all rows of a group have one row's worth of its gate
	logf   []float64 // room
}

// groupTerms are the terms of rows in groups.
type groupTerms struct {
	*terms
	table *groupTable
}

// groupRoom is room for the terms of up to model.BlockRows groups.
type groupRoom struct {
	*termRows
	posts    []float64
	sums     [][]float64 // of every term, by group
	weighted [][]float64
}

func (m *groupTerms) newRoom() *groupRoom {
	const n = model.BlockRows
	w := &groupRoom{m.newRows(), make([]float64, n*m.p.K), make([][]float64, m.at[atEnd]),
		make([][]float64, m.at[atEnd])}
	w.shared = &sharing{posts: w.posts, at: make([]int, n), speaks: make([]float64, n),
		logf: make([]float64, n*m.p.K)}
	columns(w.sums)
	columns(w.weighted)
	return w
}

// part is a block of a table's rows, and of each the place of its group among those that are looked at together.
type part struct {
	model.Block
	group []int
	first []bool // row of its group
	share []float64
}

// parts are the rows of groups, in blocks.
func (t *groupTable) parts(groups []int) (out []*part) {
	var rows, of []int
	for at, g := range groups {
		for _, r := range t.groups[g] {
			rows, of = append(rows, r), append(of, at)
		}
	}
	for from := 0; from < len(rows); from += model.BlockRows {
		n := min(model.BlockRows, len(rows)-from)
		b := &part{Block: model.Block{N: n, X: make([]float64, n*t.d), Y: make([]float64, n)}, group: of[from : from+n]}
		weights := make([]float64, n)
		for _, role := range model.OfLaw {
			if t.role[role] != nil {
				b.Role[role] = make([]float64, n)
			}
		}
		for i, r := range rows[from : from+n] {
			g := groups[b.group[i]]
			for j, v := range t.x[r*t.d : (r+1)*t.d] {
				b.X[j*n+i] = v
			}
			b.Y[i], weights[i] = t.y[r], t.weight[g]
			b.first = append(b.first, t.groups[g][0] == r)
			b.share = append(b.share, 1/float64(len(t.groups[g])))
			for _, role := range model.OfLaw {
				if values := t.role[role]; values != nil {
					b.Role[role][i] = values[r]
				}
			}
		}
		b.Role[model.Weights] = weights
		out = append(out, b)
	}
	return out
}

// fill computes the sums of the terms of at most model.BlockRows groups. Targets, where it is not nil, writes others
// than the table's to a part whose means are in w; with, likewise, is called with every part whose terms are there.
func (m *groupTerms) fill(ctx context.Context, w *groupRoom, groups []int, targets, with func(b *part)) error {
	k, parts := m.p.K, m.table.parts(groups)
	clear(w.posts)
	for _, b := range parts {
		if err := m.given(ctx, w.termRows, &b.Block); err != nil {
			return err
		}
		if targets != nil {
			targets(b)
		}
		logf := w.shared.logf[:k*b.N]
		w.Densities(logf, b.Y, m.residuals(w.termRows, b.Y))
		for t, g := range b.group {
			for i := range k {
				v := logf[i*b.N+t]
				if b.first[t] {
					v += w.Scores[i*b.N+t]
				}
				w.posts[g*k+i] += v
			}
		}
	}
	for g := range groups {
		mixture.SharePosterior(w.posts[g*k : (g+1)*k])
	}
	for _, sum := range w.sums {
		clear(sum[:len(groups)])
	}
	for _, b := range parts {
		if len(parts) > 1 { // else what is given is there
			if err := m.given(ctx, w.termRows, &b.Block); err != nil {
				return err
			}
		}
		for t, g := range b.group {
			w.shared.at[t] = g * k
		}
		copy(w.shared.speaks, b.share)
		m.terms.fill(w.termRows, b.Y)
		for at, sum := range w.sums {
			out := w.out[at]
			for t, g := range b.group {
				sum[g] += out[t]
			}
		}
		if with != nil {
			with(b)
		}
	}
	return nil
}

// sums are those of the table's own targets, with the gate's probabilities of every group.
func (m *groupTerms) sums(ctx context.Context) (*RowSums, []float64, error) {
	k, w := m.p.K, m.newRoom()
	out := m.newSums()
	out.Groups = new(GroupSums)
	var prior []float64
	for from := 0; from < len(m.table.groups); from += model.BlockRows {
		groups := span(from, min(from+model.BlockRows, len(m.table.groups)))
		at := len(prior)
		prior = append(prior, make([]float64, k*len(groups))...)
		squares := make([]float64, k*len(groups)) // Σ_t (r·h)² of every expert
		err := m.fill(ctx, w, groups, nil, func(b *part) {
			convexity, telling := m.fillUnder(w.termRows)
			out.add(blockTerms{out: w.out, ones: w.ones[:b.N], prior: w.PriorOf, post: w.PostOf, convexity: convexity,
				telling: telling}, b.Role[model.Weights])
			for t, g := range b.group {
				for i := range k {
					prior[at+g*k+i] = w.PriorOf(i)[t]
					h := w.out[m.skewAt(i)][t]
					squares[g*k+i] += h * h
				}
			}
		})
		if err != nil {
			return nil, nil, err
		}
		for at, g := range groups {
			alike := 0.0
			for i := range k {
				if r := w.posts[at*k+i]; r > leastPosterior {
					sum := w.sums[m.skewAt(i)][at]
					alike += (sum*sum - squares[at*k+i]) / (2 * r)
				}
			}
			out.Groups.add(alike, m.table.weight[g], len(m.table.groups[g]))
		}
	}
	return out, prior, nil
}

// leastPosterior is that of an expert whose rows count in a group's sum of products.
const leastPosterior = 1e-12

// skewAt is the place of r_i·h(e_i), h(e) = e·exp(−e²/4), among the terms.
func (m *groupTerms) skewAt(i int) int { return m.at[atResiduals] + 3*i + 2 }

func span(from, to int) []int {
	out := make([]int, to-from)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// mostGroupNumbers is about how many numbers the draws of groups have at most, where each term has its draws: of parts
// they travel, 32 MiB of them.
const mostGroupNumbers = 1 << 22

// draws is how many groups are drawn for the covariance of the terms.
func (m *groupTerms) draws(all *AllGroups) int {
	terms := m.at[atEnd]
	numbers := float64(m.p.D+1) * float64(all.Rows) / float64(all.Groups)
	return max(drawsPerTerm*terms, min(drawsFor(terms), int(mostGroupNumbers/numbers)))
}

// all is what is known of a table with these gate's probabilities of every group.
func (m *groupTerms) all(prior []float64) *AllGroups {
	k := m.p.K
	out := &AllGroups{Prior: make([]float64, k), Weight: floats.Sum(m.table.weight), Rows: len(m.table.y),
		Groups: len(m.table.groups)}
	for g, w := range m.table.weight {
		floats.AddScaled(out.Prior, w, prior[g*k:(g+1)*k])
	}
	return out
}

// sample draws about so many groups as [terms.sample] draws rows: evenly among those that begin in one block.
func (m *groupTerms) sample(prior []float64, all *AllGroups, wanted int, seed uint64) *GroupDraws {
	k, out := m.p.K, NewGroupDraws(m.p.D)
	out.wanted = wanted
	boost, at, of := make([]float64, k), make([]float64, k), -1
	for i, mass := range all.Prior {
		boost[i] = max(1, all.Weight/(float64(k)*max(mass, 1)))
	}
	for g, w := range m.table.weight {
		if block := m.table.block[g]; block != of {
			of = block
			rng := stream.New(seed, stream.CertificateRow, block)
			for i := range at {
				at[i] = rng.Float64()
			}
		}
		drawn := len(out.expert)
		for i := range k {
			rate := boost[i] * float64(wanted) / all.Weight
			for at[i] += rate * prior[g*k+i] * w; at[i] >= 1; at[i]-- {
				out.expert, out.weight = append(out.expert, i), append(out.weight, 1/boost[i])
			}
		}
		if len(out.expert) > drawn {
			out.table.take(m.table, g)
			out.upTo = append(out.upTo, len(out.expert))
		}
	}
	return out
}

// groupTargets are those of groups drawn.
type groupTargets struct {
	*groupTerms
	drawn   *GroupDraws
	seed    uint64
	workers int
}

// groupChunks is in how many parts draws of groups are added up.
const groupChunks = 16

func (d groupTargets) each(ctx context.Context, times, values int,
	fn func(sums []float64, terms, room [][]float64, weight []float64)) ([]float64, error) {
	of := d.drawn.groups()
	n := len(of) * times
	batches := (n + model.BlockRows - 1) / model.BlockRows
	chunks := make([][]float64, min(groupChunks, batches))
	room := make([]*groupRoom, model.Workers(d.workers))
	total := make([]float64, len(chunks))
	err := model.Parts(len(chunks), len(room), func(worker, chunk int) error {
		if room[worker] == nil {
			room[worker] = d.newRoom()
		}
		w := room[worker]
		chunks[chunk] = make([]float64, values)
		for batch := chunk * batches / len(chunks); batch < (chunk+1)*batches/len(chunks); batch++ {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			var groups, experts []int
			var weight []float64
			for i := batch * model.BlockRows; i < min((batch+1)*model.BlockRows, n); i++ {
				from := i % len(of)
				groups, experts = append(groups, of[from]), append(experts, d.drawn.expert[from])
				weight = append(weight, d.drawn.weight[from])
			}
			rng := stream.New(d.seed, stream.CertificateTarget, batch)
			err := d.fill(ctx, w, groups, func(b *part) { d.draw(w, b, experts, rng) }, nil)
			if err != nil {
				return err
			}
			terms, weighted := make([][]float64, len(w.sums)), make([][]float64, len(w.sums))
			for i := range terms {
				terms[i], weighted[i] = w.sums[i][:len(groups)], w.weighted[i][:len(groups)]
			}
			fn(chunks[chunk], terms, weighted, weight)
			total[chunk] += floats.Sum(weight)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0], c)
	}
	floats.Scale(1/floats.Sum(total), chunks[0])
	return chunks[0], nil
}

// draw draws targets for a part's rows.
func (d groupTargets) draw(w *groupRoom, b *part, experts []int, rng *rand.Rand) {
	for t, g := range b.group {
		i := experts[g]
		b.Y[t] = mixture.Draw(rng, mixture.OfRow(w.Density, t), w.g[i*b.N+t], d.psi[i])
	}
}

// GroupSums are sums over groups of what asks whether rows of one are alike beyond their expert: of products of two of
// their residuals,
//
//	d_g = Σ_i r_gi·Σ_{s<t} h(e_is)·h(e_it),   h(e) = e·exp(−e²/4),
//
// which has mean 0 under the model, since the rows of a group are independent given its expert. One effect of a group
// on all its rows makes it positive.
type GroupSums struct {
	Weight            float64 // of all groups
	Pairs             float64 // what those of two rows and more weigh
	Products, Squares float64 // Σ w_g·d_g and Σ w_g·d_g²
}

func (s *GroupSums) add(alike, weight float64, rows int) {
	s.Weight += weight
	if rows > 1 && weight > 0 {
		s.Pairs += weight
		s.Products += weight * alike
		s.Squares += weight * alike * alike
	}
}

// merge adds those of other groups.
func (s *GroupSums) merge(o *GroupSums) {
	s.Weight += o.Weight
	s.Pairs += o.Pairs
	s.Products += o.Products
	s.Squares += o.Squares
}

// leastPairs groups of several rows are needed for the test: its statistic is at most their number, and of fewer could
// not be suspect.
const leastPairs = 14

// test is that of E d_g = 0 against positive ones, studentised by the products themselves.
func (s *GroupSums) test() (t infer.Test, why string) {
	if s.Pairs < leastPairs {
		return t, fmt.Sprintf("%.4g groups have two rows or more, want %d", s.Pairs, leastPairs)
	}
	if !(s.Squares > 0) {
		return t, ""
	}
	z := max(0, s.Products/math.Sqrt(s.Squares))
	return infer.Test{Name: infer.DependenceTest, DF: 1, Statistic: z * z, Robust: true,
		PValue: distuv.UnitNormal.Survival(z), Suggests: groupCause}, ""
}

// groupCause is what rows of a group that are alike beyond their expert suggest.
const groupCause = "rows of a group that depend on each other beyond their expert"
