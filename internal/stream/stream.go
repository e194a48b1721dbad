// Package stream has the table of all random streams of the program, and is the one place that makes
// their generators. Under one seed no two uses share a number: use u has the generators of the PCG seeds
//
//	(seed, u·2^32 + index),  0 ≤ index < 2^32,
//
// which are disjoint for all u; what is drawn twice by intent has the same use and index twice, and the table
// says so. Fits of one seed, as those of a range of k, have the same streams.
package stream

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Use is what random numbers are for. Its value is a part of what equal seeds give: a new
// one goes to the end.
type Use uint32

const (
	Study Use = iota
	Start
	Moments
	SplitMerge
	CertificateRow
	Spectral
	Descent
	Survey
	CertificateTarget
	SurveySoft
	Soft
	Rework
	Exchange
	Perturbation
	Placing
	Spare
	NeighbourJoiner
	NeighbourExchange
	NetworkTensors
	NetworkStart
	Folds
	Sequence
	Conformance
	Posterior
	Curve
	Narrower
	Halves
	Inputs
	Repetition
	SpareHeld
)

// Entry is a row of the table.
type Entry struct {
	Use   Use
	Name  string
	What  string // that is drawn
	Index string // how the index runs
}

// Table has a row for every use, in their order.
func Table() []Entry {
	return []Entry{
		{Study, "Study", "draws beside the rows of a data set",
			"0 the predicted sample sizes, whose seed is constant; 1 starts of a figure's unit, and what rows it " +
				"draws by itself, or points and weights of 004; 2 starts on the landscape of L4"},
		{Start, "Start", "a start of a search or of a method that runs several", "the start"},
		{Moments, "Moments", "starts of L4 on the reduced problem", "0"},
		{SplitMerge, "SplitMerge", "arrangements in a tree that moves from a start's optimum propose", "the start"},
		{CertificateRow, "CertificateRow", "rows and experts that a certificate draws", "the block of the table"},
		{Spectral, "Spectral", "starts of the power iterations", "0"},
		{Descent, "Descent", "start and mini-batches of a descent of L4", "0"},
		{Survey, "Survey", "a start or a move of a survey", "the run"},
		{CertificateTarget, "CertificateTarget", "their targets",
			"the block of draws; more of them begin with the same, and moments of any order see the same"},
		{SurveySoft, "SurveySoft", "a soft start of a survey", "the run"},
		{Soft, "Soft", "a soft start where there was no survey",
			"the run; the same each time that the best of all rows is looked for"},
		{Rework, "Rework", "arrangements in a tree that moves on all rows propose",
			"0; the same each time that the best of all rows is looked for"},
		{Exchange, "Exchange", "lines along which rows are exchanged between the cells of a hard gate",
			"the candidate; the same each time that the best of all rows is looked for"},
		{Perturbation, "Perturbation", "steps of about a standard error from the best",
			"the occasion of the search's last steps"},
		{Placing, "Placing", "places of experts of few rows", "the occasion of the search's last steps"},
		{Spare, "Spare", "where an expert that hardly counts begins anew",
			"400 times, or more where more starts are asked for, (k times the sweep, and which of its experts), " +
				"and the start"},
		{NeighbourJoiner, "NeighbourJoiner", "where an expert begins that joins the fit of one less",
			"16 times the fit's experts, and the start"},
		{NeighbourExchange, "NeighbourExchange", "Exchange for what came of a neighbour", "the neighbour's experts"},
		{NetworkTensors, "NetworkTensors", "starts of a network's tensors", "0"},
		{NetworkStart, "NetworkStart", "a random start of a network", "the start"},
		{Folds, "Folds", "which part of a cross-validation a row is in", "0"},
		{Sequence, "Sequence", "inputs on which a recurrent unit and its trees are compared", "0"},
		{Conformance, "Conformance", "points at which activations are checked, whose seed is constant", "0"},
		{Posterior, "Posterior", "the chain that draws from the posterior of a fit's arrangements", "0"},
		{Curve, "Curve", "random regressors from which a curve is learned", "0"},
		{Narrower, "Narrower", "the seed of a search under the density of which the family's is a wider one", "0"},
		{Halves, "Halves", "which half of a bound for the number of experts a row is in", "the deal"},
		{Inputs, "Inputs", "where EM for the law of the features begins", "twice the components, and the start"},
		{Repetition, "Repetition", "the seed of a second search, against which the first is held", "0"},
		{SpareHeld, "SpareHeld", "the same as Spare beside others that are held as they are", "as that of Spare"},
	}
}

// ends are the first and the last of a use's second PCG seeds.
func (u Use) ends() (first, last uint64) { return uint64(u) << 32, uint64(u)<<32 | math.MaxUint32 }

// New returns the generator of one stream of a seed. An index that is not in [0, 2^32) is a panic.
func New(seed uint64, u Use, index int) *rand.Rand {
	if uint64(index) > math.MaxUint32 {
		panic(fmt.Sprintf("stream: index %d, want 0 to 2^32 - 1", index))
	}
	first, _ := u.ends()
	return rand.New(rand.NewPCG(seed, first|uint64(index)))
}

// Sample returns the generator of a data set that is drawn: of its block of rows, from 0, or of the parameters of its
// target c, [Parameters] − c. Both PCG seeds are drawn by a mixing function, so that the rows that a seed gives and a
// fit by the same seed share no numbers either but by a chance of about 2^-64.
func Sample(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(mixed(seed, number))) }

// Parameters is the number of the parameters' stream of a sample.
const Parameters = math.MaxUint64

// mixed are the PCG seeds of a sample's stream. For a seed the first alone is a bijection of the number.
func mixed(seed, number uint64) (uint64, uint64) {
	hi := mix(seed)
	return mix(hi ^ number), mix(hi + mix(number))
}

// mix is the output function of SplitMix64 (Steele, Lea & Flood 2014), a
// bijection whose every output bit depends on every input bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Coin is true in half of the draws.
func Coin(rng *rand.Rand) bool { return rng.Uint64()&1 == 0 }
