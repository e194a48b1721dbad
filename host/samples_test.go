package host

import (
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestPredictedSampleSize holds solver.Noise.Samples against simulation: the
// number of rows at which the median E_reg of the moment estimate over 40 data
// sets of the papers' design is 0.01 lies, by either transform and from T̂3 or T̂4, within a factor 2.5 of the prediction.
// E_reg is about a scaled χ² with one degree of freedom or more, so a median of 40
// has a relative standard error of at most 0.37; the seeds are fixed. What the median is
// is decided when 21 data sets are on one side of 0.01: the others are left out.
//
// ReLU by T̂4 of the polynomials, and at k = 3, takes half a minute and runs only in the
// study, with any number of data sets, which prints the medians:
//
//	MOE_STUDY=40 go test ./host -run TestPredictedSampleSize -v
func TestPredictedSampleSize(t *testing.T) {
	testslow.Mark(t)
	sets, study := 40, os.Getenv("MOE_STUDY")
	if n, err := strconv.Atoi(study); err == nil {
		sets = n
	}
	four, three := moment.Want{Transform: moment.Polynomial}, moment.Want{Transform: moment.Polynomial, Order: 3}
	least4, least3 := moment.Want{Transform: moment.Optimal}, moment.Want{Transform: moment.Optimal, Order: 3}
	for _, c := range []struct {
		family sdk.Family
		k      int
		want   moment.Want
		study  bool
	}{
		{identity.Family, 2, four, false}, {identity.Family, 3, four, false},
		{sigmoid.Family, 2, four, false}, {sigmoid.Family, 3, four, false},
		{relu.Family, 2, four, true}, {relu.Family, 3, four, true},
		{identity.Family, 2, three, false}, {relu.Family, 2, three, false}, {relu.Family, 3, three, true},
		{identity.Family, 3, least4, false}, {relu.Family, 2, least4, false}, {relu.Family, 3, least4, true},
		{identity.Family, 2, least3, false}, {relu.Family, 2, least3, false}, {relu.Family, 3, least3, false}, {sigmoid.Family, 3, least3, true},
	} {
		if c.study && study == "" {
			continue
		}
		act, err := c.family.Activation(nil)
		if err != nil {
			t.Fatal(err)
		}
		predicted := predictedSize(t, act, c.k, c.want)
		few, many := int(predicted/2.5), int(2.5*predicted)
		if !mostErrors(t, act, c.k, c.want, few, sets, func(e float64) bool { return e > 0.01 }) ||
			!mostErrors(t, act, c.k, c.want, many, sets, func(e float64) bool { return e < 0.01 }) {
			t.Errorf("%s, k = %d, %v: the median E_reg at %d and %d rows does not cross 0.01", c.family.Name, c.k, c.want, few, many)
		}
		if study != "" {
			sizes := []int{few, int(predicted), many}
			medians := medianErrors(t, act, c.k, c.want, sizes, sets)
			t.Logf("%s, k = %d, %v: predicted %.3g rows, found %.3g (median E_reg %.4f at %v rows)", c.family.Name, c.k, c.want, predicted, crossing(sizes, medians), medians, sizes)
		}
	}
}

// mostErrors says whether more than half of the data sets of n rows have an error that
// holds: their median does too. It ends when that is decided.
func mostErrors(t *testing.T, act sdk.Activation, k int, w moment.Want, n, sets int, holds func(float64) bool) bool {
	most, yes, no := sets/2+1, 0, 0
	for seed := uint64(0); yes < most && no <= sets-most; seed++ {
		if holds(momentError(t, act, k, w, n, seed)) {
			yes++
		} else {
			no++
		}
	}
	return yes == most
}

func predictedSize(t *testing.T, act sdk.Activation, k int, w moment.Want) float64 {
	design := solver.Design{K: k, D: 10, Order: w.Order}
	if w.Transform == moment.Optimal {
		o, err := solver.NewOptimal(t.Context(), act, 0.05, k)
		if err != nil {
			t.Fatal(err)
		}
		return o.Noise.Samples(design, 0.01)
	}
	v, err := solver.Validate(t.Context(), act, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	return v.Noise.Samples(design, 0.01)
}

// medianErrors returns the median E_reg of the moment estimate at each size.
func medianErrors(t *testing.T, act sdk.Activation, k int, w moment.Want, sizes []int, sets int) []float64 {
	medians := make([]float64, len(sizes))
	for i, n := range sizes {
		e := make([]float64, sets)
		for seed := range e {
			e[seed] = momentError(t, act, k, w, n, uint64(seed))
		}
		medians[i] = median(e)
	}
	return medians
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// momentError returns E_reg of the moment estimate from n rows; 1 where there is none.
func momentError(t *testing.T, act sdk.Activation, k int, w moment.Want, n int, seed uint64) float64 {
	s, err := sample.New(sample.Config{Activation: act, K: k, D: 10, N: n, Sigma: 0.05, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	request := problem.Request{K: k}
	if w.Transform == moment.Optimal {
		request.Noise = problem.Shared{Sigma: 0.05} // that they are made for
	}
	p, err := problem.Load(t.Context(), s, act, request)
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := moment.Measure(t.Context(), p, w)
	if err != nil {
		t.Fatal(err)
	}
	estimate := func() (*moment.Estimate, string, error) {
		return moment.EstimateParams(t.Context(), p, evidence, 0)
	}
	if w.Order == 3 {
		estimate = func() (*moment.Estimate, string, error) { return moment.EstimateSpectral(t.Context(), p, evidence) }
	}
	est, _, err := estimate()
	if err != nil {
		t.Fatal(err)
	}
	if est == nil {
		return 1
	}
	e, _ := metric.Ereg(est.Params, s.Truth)
	return e
}

// crossing interpolates where the errors fall through 0.01, on logarithmic
// scales.
func crossing(sizes []int, errors []float64) float64 {
	for i := 1; i < len(sizes); i++ {
		if errors[i] <= 0.01 {
			w := math.Log(errors[i-1]/0.01) / math.Log(errors[i-1]/errors[i])
			return float64(sizes[i-1]) * math.Pow(float64(sizes[i])/float64(sizes[i-1]), w)
		}
	}
	return math.NaN()
}
