package specification

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// layout says where the terms of a row stand, of one target or several, and what the bounded functions in them are
// of. Of several every expert has those of each target beside each other.
type layout struct {
	d, k, targets, gates  int
	coefficients          int   // of an expert for one target
	gate                  []int // columns of a gate's coefficients; d is the column of ones
	groups                int   // of features, in the heteroscedasticity test
	pairs                 int   // groups of pairs of features, in that of interactions
	gateGroups, gatePairs int   // of features and of pairs of them, for each gate
	// Rms of the experts' predictors, of the gate's logits and of the features.
	zRMS, lRMS, xRMS []float64

	at [9]int // where each kind of terms begins; the last is their number
}

const (
	atScores = iota
	atResiduals
	atCorrelation // of several targets whose noise is independent
	atNonlinearity
	atGate
	atGateFeatures
	atHeteroscedasticity
	atInteractions
	atEnd
)

// mostGroups and mostPairs bound the degrees of freedom of the tests of heteroscedasticity and
// of interactions, and those of all gates' features together; where there are more features, or
// pairs of them, they are added up in groups.
const (
	mostGroups = 32
	mostPairs  = 64
)

// newLayout is that of a mixture with the gate and the experts' shape of p, so many targets, scores and terms of
// correlation.
func newLayout(p *model.Params, free loss.Free, targets, scores, correlations int) layout {
	expert, gate := free.Columns(p)
	l := layout{d: p.D, k: p.K, targets: targets, gates: p.Gates(), coefficients: len(expert), gate: gate,
		groups: min(p.D, mostGroups), pairs: min(p.D*(p.D+1)/2, mostPairs)}
	each := max(l.gates, 1)
	l.gateGroups = min(l.groups, max(1, mostGroups/each))
	l.gatePairs = min(l.pairs, max(1, mostPairs/each))
	for i, size := range [...]int{scores, 3 * l.k * targets, correlations, 3 * l.k * targets, l.perGate() * l.gates,
		(l.gateGroups + l.gatePairs) * l.gates, l.groups * targets, l.pairs * targets} {
		l.at[i+1] = l.at[i] + size
	}
	return l
}

// perGate is how many terms the test of the gate has of each.
func (l *layout) perGate() int { return 3 + 2*l.targets }

// functions are the bounded functions of a block of rows.
type functions struct {
	ones         []float64
	zBump, zBend []float64 // of the predictors
	lBump, lBend []float64 // of the logits
	xBump        []float64 // of the features, by group
	xSoft        []float64 // another of the features
	xPairs       []float64 // its products, by group
	xGate        []float64 // bends of the features and the products, by the gates' groups
	room         []float64
}

func (l *layout) newFunctions() functions {
	of := func(values int) []float64 { return make([]float64, values*model.BlockRows) }
	f := functions{ones: of(1), zBump: of(l.k * l.targets), zBend: of(l.k * l.targets), lBump: of(l.gates),
		lBend: of(l.gates), xBump: of(l.groups), xSoft: of(l.d), xPairs: of(l.pairs),
		xGate: of(l.gateGroups + l.gatePairs), room: of(1)}
	for i := range f.ones {
		f.ones[i] = 1
	}
	return f
}

// given computes the functions of x, predictors z and logits. They are of their argument in units of its rms: even,
// odd, and the identity held within ±2 ([kernel.Bump], [kernel.Bend], [kernel.Soft]).
func (f *functions) given(l *layout, b *model.Block, z func(at int) []float64, logits []float64) {
	n := b.N
	for i := range l.k * l.targets {
		v, inv := z(i), 1/l.zRMS[i]
		kernel.Bump(f.zBump[i*n:(i+1)*n], v, inv)
		kernel.Bend(f.zBend[i*n:(i+1)*n], v, inv)
	}
	for j := range l.gates {
		v, inv := logits[j*n:(j+1)*n], 1/l.lRMS[j]
		kernel.Bump(f.lBump[j*n:(j+1)*n], v, inv)
		kernel.Bend(f.lBend[j*n:(j+1)*n], v, inv)
	}
	f.features(l, b)
}

// features computes those of the features.
func (f *functions) features(l *layout, b *model.Block) {
	n := b.N
	clear(f.xBump)
	for j := range l.d {
		dst, softs := f.xBump[j%l.groups*n:(j%l.groups+1)*n], f.xSoft[j*n:(j+1)*n]
		inv := 1 / l.xRMS[j]
		bumps := f.room[:n]
		kernel.Bump(bumps, b.Col(j), inv)
		floats.Add(dst, bumps)
		kernel.Soft(softs, b.Col(j), inv)
	}
	clear(f.xPairs)
	pair := 0
	for j := range l.d {
		for i := range j + 1 {
			dst := f.xPairs[pair%l.pairs*n : (pair%l.pairs+1)*n]
			kernel.AddMul(dst, f.xSoft[j*n:(j+1)*n], f.xSoft[i*n:(i+1)*n])
			pair++
		}
	}
	clear(f.xGate)
	for j := range l.d {
		bends := f.room[:n]
		kernel.Bend(bends, b.Col(j), 1/l.xRMS[j])
		floats.Add(f.xGate[j%l.gateGroups*n:(j%l.gateGroups+1)*n], bends)
	}
	for g := range l.pairs {
		at := l.gateGroups + g%l.gatePairs
		floats.Add(f.xGate[at*n:(at+1)*n], f.xPairs[g*n:(g+1)*n])
	}
}

// products writes those of a with each of the functions to the columns of out.
func products(out [][]float64, a []float64, functions ...[]float64) {
	for i, h := range functions {
		kernel.Mul(out[i][:len(a)], a, h)
	}
}

// fillMeans writes the terms of nonlinearity of expert i and target c, whose r_i·e_i is pull.
func (l *layout) fillMeans(out [][]float64, f *functions, pull []float64, i, c int) {
	at, n := i*l.targets+c, len(pull)
	products(out[l.at[atNonlinearity]+3*at:], pull, f.ones[:n], f.zBump[at*n:(at+1)*n], f.zBend[at*n:(at+1)*n])
}

// addSpread adds an expert's part to the terms of heteroscedasticity of target c, wide being the first term of its
// residuals' shape.
func (l *layout) addSpread(out [][]float64, f *functions, wide []float64, c int) {
	n := len(wide)
	for g := range l.groups {
		kernel.AddMul(out[l.at[atHeteroscedasticity]+c*l.groups+g][:n], wide, f.xBump[g*n:(g+1)*n])
	}
}

// fillGate writes the terms of gate j, whose r_j − p_j is diff.
func (l *layout) fillGate(out [][]float64, f *functions, diff []float64, j int) {
	n := len(diff)
	gate := out[l.at[atGate]+l.perGate()*j:]
	products(gate, diff, f.ones[:n], f.lBump[j*n:(j+1)*n], f.lBend[j*n:(j+1)*n])
	for c := range l.targets {
		at := j*l.targets + c
		products(gate[3+2*c:], diff, f.zBump[at*n:(at+1)*n], f.zBend[at*n:(at+1)*n])
	}
	of := l.gateGroups + l.gatePairs
	for g := range of {
		kernel.Mul(out[l.at[atGateFeatures]+of*j+g][:n], diff, f.xGate[g*n:(g+1)*n])
	}
}

// scale sets the rms of what the bounded functions are taken of.
func (l *layout) scale(q *Squares) {
	l.zRMS, l.lRMS, l.xRMS = rms(q.Z, q.Rows), rms(q.Logits, q.Rows), rms(q.X, q.Rows)
}

// forms makes the tests of sums over rows that are quadratic forms in them, given the
// covariance of a row's terms, which was taken over so many draws; along eigenvectors, if that is wanted. The sums are
// used up.
func (l *layout) forms(s *RowSums, c *mat.SymDense, draws float64, along bool) (*quadraticForms,
	[]infer.Untested) {
	untested := l.untested(s)
	q := &quadraticForms{cov: c, sums: s.Terms, n: s.draws(), draws: draws, blocks: l.at[atNonlinearity:], along: along,
		groups: s.Groups != nil}
	for _, u := range untested {
		q.omit(l.at[atResiduals]+3*u.Expert*l.targets, 3*l.targets)
		q.omit(l.at[atNonlinearity]+3*u.Expert*l.targets, 3*l.targets)
	}
	of := l.gateGroups + l.gatePairs
	for _, j := range q.omitHardGates(l.k*l.targets*l.coefficients, l.gates, gateScale(l.gate, l.xRMS), draws) {
		q.omit(l.at[atGate]+l.perGate()*j, l.perGate())
		q.omit(l.at[atGateFeatures]+of*j, of)
	}
	q.standardise()
	q.project(0, l.at[atResiduals], ridged)
	q.test(infer.ResidualsTest, l.at[atResiduals], l.at[atCorrelation])
	q.test(infer.CorrelationTest, l.at[atCorrelation], l.at[atNonlinearity])
	q.project(l.at[atResiduals], l.at[atNonlinearity], ranked)
	for i, name := range []string{infer.NonlinearityTest, infer.GateTest, infer.GateFeaturesTest, infer.SpreadTest,
		infer.InteractionsTest} {
		q.test(name, l.at[atNonlinearity+i], l.at[atNonlinearity+i+1])
	}
	q.nameFeatures(l)
	return q, untested
}

// untested returns the experts with too few rows.
func (l *layout) untested(s *RowSums) (out []infer.Untested) {
	for i, mass := range s.Mass {
		if len(s.Telling) > 0 {
			mass = s.Telling[i]
		}
		if mass < float64(rowsPerCoefficient*l.coefficients) {
			out = append(out, infer.Untested{Expert: i, Rows: mass, Coefficients: l.coefficients})
		}
	}
	return out
}

// allow takes off the sums of the residuals' shape what the
// estimation of the experts' coefficients adds to them in the mean. The p
// coefficients of expert i leave its squared residuals, over m_i rows, a mean of
// σ²·(1 − p/m_i), and a free σ² is less than the noise's by the mean of that over
// the experts that share it: so those of expert i have a mean of 1 + δ_i, where
// δ_i = (coefficients that share σ_i)/(their rows) − p/m_i, or −p/m_i alone for a
// given σ, and its terms ψ one of δ_i·dEψ(sZ)/ds² for each row. Under a density f that is half the mean of
// r_i·ψ·f″/(f·E[(log f)′²]) by f's mean: of the residuals' shape under 0/1 targets, whose variance is their mean's, it
// is 0. There, and for a given σ, all terms have such a mean. That of the scores is what the coefficients' own bias
// comes from, so that next to nothing is taken off what they nearly explain.
//
// An expert has so many coefficients of its own, and all share σ over so many rows, if they share one.
func (l *layout) allow(s *RowSums, own, rows float64, shared bool) {
	for i, mass := range s.Mass {
		excess := -min(own, mass)
		if shared {
			excess += mass * own * float64(l.k) / rows
		}
		if len(s.Slopes) == 0 {
			for c := range l.targets {
				at := l.at[atResiduals] + 3*(i*l.targets+c)
				s.Terms[at] -= excess * slopeWide
				s.Terms[at+1] -= excess * slopeNarrow
			}
		} else if mass > 0 {
			floats.AddScaled(s.Terms, -excess/(2*mass), s.Slopes[i*len(s.Terms):(i+1)*len(s.Terms)])
		}
	}
}
