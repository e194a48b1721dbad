package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/identity"
)

// quadrants is a small table of four planes, one to a quadrant of the first two of
// three features: a gate that separates and many optima.
func quadrants(t testing.TB, n, threads int) *problem.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	var plane [4][3]float64
	for i := range plane {
		for j := range plane[i] {
			plane[i][j] = rng.NormFloat64()
		}
	}
	for r := range y {
		cell := 0
		for j := range 3 {
			x.Set(r, j, rng.NormFloat64())
			if j < 2 && x.At(r, j) > 0 {
				cell += 1 << j
			}
		}
		y[r] = floats.Dot(plane[cell][:], x.RawRowView(r)) + float64(cell) + 0.3*rng.NormFloat64()
	}
	return load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 4, Intercept: true, Threads: threads})
}

// TestSurveyIsTheSame at any number of threads, and its best is at least as good as
// each of its starts.
func TestSurveyIsTheSame(t *testing.T) {
	var first *Survey
	for threads := 1; threads <= 3; threads++ {
		p := quadrants(t, 200, threads)
		s, err := survey(t.Context(), p, measure(t, p), 8)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s
		}
		if diff := cmp.Diff(first, s, same); diff != "" {
			t.Fatalf("%d threads: %s", threads, diff)
		}
	}
	if len(first.Best) == 0 || first.Starts < surveyWave || first.Best[0].Run.Status != optim.Converged {
		t.Errorf("%+v", first)
	}
	for _, c := range first.Best[1:] {
		if compare(c, first.Best[0]) < 0 {
			t.Errorf("an optimum at %v before one at %v", first.Best[0].Run.Value, c.Run.Value)
		}
	}
}

// TestSurveyIsOfSmallTables: none where the rows or the starts are not for it, or there
// is nothing to look for.
func TestSurveyIsOfSmallTables(t *testing.T) {
	large, _ := drawn(t, identity.Family, 2, 10, 10_000, 0.1, 1, problem.Request{})
	one := parallels(t, 50, 1, func(int) float64 { return 0 }, problem.Request{})
	small := quadrants(t, 60, 1)
	for _, c := range []struct {
		p      *problem.Problem
		starts int
		want   bool
	}{{large, DefaultStarts, false}, {one, DefaultStarts, false}, {small, 1, false}, {small, waveSize, true}} {
		s, err := survey(t.Context(), c.p, measure(t, c.p), c.starts)
		if err != nil {
			t.Fatal(err)
		}
		if (s != nil) != c.want {
			t.Errorf("%d rows, k = %d, %d starts: survey %+v", c.p.N(), c.p.Shape.K, c.starts, s)
		}
	}
}

// TestSurveyCounts: optima are values within half a unit of log-likelihood of the best of
// them, and moves count for none; by hand.
func TestSurveyCounts(t *testing.T) {
	p := parallels(t, 100, 2, func(r int) float64 { return float64(r % 2 * 9) }, problem.Request{})
	for _, c := range []struct {
		below                []float64 // the best, in total; negative: a move that many below
		optima, singles, met int
		unseen               float64 // of 10 starts
	}{
		{[]float64{0, 0.1, 0.4, 3, 3.2, 7}, 3, 1, 3, 0.1},
		{[]float64{0, 0.1, 0.4}, 1, 0, 3, 0},
		{[]float64{-0.001, 2, 4, 4.1}, 2, 1, 0, 0.2}, // the best was met by a move alone
		{[]float64{0, -0.2, 5, -5.1}, 2, 2, 1, 0.2},
	} {
		s := &surveyor{problem: p, Survey: Survey{Starts: 10}}
		for _, v := range c.below {
			one := ended(math.Abs(v)/100, optim.Converged, false)
			one.Kind = KindRandom
			if v < 0 {
				one.Kind = KindMove
			}
			s.pool = append(s.pool, one)
		}
		s.count()
		if s.Optima != c.optima || s.Singles != c.singles || s.Met != c.met || math.Abs(s.Unseen()-c.unseen) > 1e-12 {
			t.Errorf("%v: %+v, unseen %v, want %+v", c.below, s.Survey, s.Unseen(), c)
		}
	}
}

// TestUnseenIsCalibrated: where starts end at optima with known chances, the mean of
// the estimate is that of the chance that the next one is new, within three standard
// errors of 4,000 repetitions.
func TestUnseenIsCalibrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	chances := []float64{0.5, 0.2, 0.1, 0.1, 0.05, 0.05}
	const starts, repetitions = 20, 4000
	sum, squares := 0.0, 0.0
	for range repetitions {
		met := make([]int, len(chances))
		for range starts {
			u, i := rng.Float64(), 0
			for u >= chances[i] && i < len(chances)-1 {
				u -= chances[i]
				i++
			}
			met[i]++
		}
		s, unseen := Survey{Starts: starts, Met: 1}, 0.0
		for i, m := range met {
			if m == 1 {
				s.Singles++
			}
			if m == 0 {
				unseen += chances[i]
			}
		}
		diff := s.Unseen() - unseen
		sum += diff
		squares += diff * diff
	}
	mean := sum / repetitions
	// The estimate is for one start less, and therefore a little too large: by the chance that
	// an optimum is unseen by all but one, times its share.
	bias := 0.0
	for _, c := range chances {
		bias += c * (math.Pow(1-c, starts-1) - math.Pow(1-c, starts))
	}
	if se := math.Sqrt(squares / repetitions / repetitions); math.Abs(mean-bias) > 3*se {
		t.Errorf("the estimate is off by %v on average, want %v within %v", mean, bias, 3*se)
	}
}

// TestUnseenOfKinds: the same where starts are of two kinds in turn, which have other
// chances, and one optimum that only one of them meets. The bias is summed up over
// optima and starts.
func TestUnseenOfKinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	kinds := [][]float64{{0.9, 0.06, 0.04, 0, 0}, {0.2, 0.1, 0.3, 0.3, 0.1}}
	const starts, repetitions = 20, 4000
	sum, squares := 0.0, 0.0
	for range repetitions {
		met := make([]int, len(kinds[0]))
		for j := range starts {
			u, i, chances := rng.Float64(), 0, kinds[j%2]
			for i < len(chances)-1 && u >= chances[i] {
				u -= chances[i]
				i++
			}
			met[i]++
		}
		s, unseen := Survey{Starts: starts, Met: 1}, 0.0
		for i, m := range met {
			if m == 1 {
				s.Singles++
			}
			if m == 0 {
				unseen += (kinds[0][i] + kinds[1][i]) / 2
			}
		}
		diff := s.Unseen() - unseen
		sum += diff
		squares += diff * diff
	}
	mean, bias := sum/repetitions, 0.0
	for i := range kinds[0] {
		missed := math.Pow((1-kinds[0][i])*(1-kinds[1][i]), starts/2)
		for j := range starts {
			c := kinds[j%2][i]
			bias += c * (missed/(1-c) - missed) / starts
		}
	}
	if deviation := math.Sqrt((squares/repetitions - mean*mean) / repetitions); math.Abs(mean-bias) > 3*deviation {
		t.Errorf("the estimate is off by %v ± %v, want %v", mean, deviation, bias)
	}
}

// TestLabelsOfStarts: what each kind of start labels.
func TestLabelsOfStarts(t *testing.T) {
	p := quadrants(t, 300, 1)
	rows, err := newTable(t.Context(), p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	const k = 4
	for _, c := range []struct {
		name        string
		label       func(*rand.Rand, *table, int) []int
		least, most int // rows that have a label
	}{
		{"scaled clusters", scaledClusters, 300, 300},
		{"residual clusters", residualClusters, 300, 300},
		{"cuts", cuts, 300, 300},
		{"neighbourhoods", neighbourhoods, 1, k * 27}, // 300/8, of which trimmed are left out, some twice
		{"handfuls", handfuls, k * 6, k * 6},
	} {
		var before []int
		for seed := range uint64(5) {
			label := c.label(rand.New(rand.NewPCG(seed, 1)), rows, k)
			count := make([]int, k)
			for _, i := range label {
				if i >= 0 {
					count[i]++
				}
			}
			if n := count[0] + count[1] + count[2] + count[3]; len(label) != 300 || n < c.least || n > c.most || slices.Max(count) == n {
				t.Errorf("%s: labels of %v rows", c.name, count)
			}
			if slices.Equal(label, before) {
				t.Errorf("%s: the same for two seeds", c.name)
			}
			before = label
		}
	}
}

// TestTrimLeavesOutliersOut: rows off the line of their label are those that lose it.
func TestTrimLeavesOutliersOut(t *testing.T) {
	x, y := mat.NewDense(100, 1, nil), make([]float64, 100)
	for r := range y {
		x.Set(r, 0, float64(r%37)-18)
		y[r] = 2 * x.At(r, 0)
		if r%5 == 0 {
			y[r] += 50
		}
	}
	p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), problem.Request{K: 1, Intercept: true})
	rows, err := newTable(t.Context(), p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	label := make([]int, 100)
	rows.trim(label, 1)
	for r, i := range label {
		if r%5 == 0 && i != -1 {
			t.Errorf("row %d has kept its label", r)
		}
	}
}

// TestTilt: the logit of one expert changes against all others, which keep their odds.
func TestTilt(t *testing.T) {
	const k, d = 4, 3
	rng := rand.New(rand.NewPCG(2, 2))
	random := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	p := model.NewParams(k, d)
	copy(p.Gating, random((k-1)*d))
	p.GatingIntercepts = random(k - 1)
	w, v, x := random(d), rng.NormFloat64(), random(d)
	logit := func(q *model.Params, i int) float64 {
		if i == k-1 {
			return 0
		}
		return floats.Dot(q.Gate(i), x) + q.GatingIntercepts[i]
	}
	for i := range k {
		q := p.Clone()
		tilt(q, i, w, v, -1)
		for j := range k {
			want := logit(p, j) - logit(p, (j+1)%k)
			if j == i {
				want -= floats.Dot(w, x) + v
			}
			if (j+1)%k == i {
				want += floats.Dot(w, x) + v
			}
			if got := logit(q, j) - logit(q, (j+1)%k); math.Abs(got-want) > 1e-12 {
				t.Errorf("expert %d tilted: log-odds of %d are %v, want %v", i, j, got, want)
			}
		}
	}
}

// TestSoften: the steepest gate has the norm softest, the directions stay, and soft
// gates stay as they are.
func TestSoften(t *testing.T) {
	p := model.NewParams(3, 2)
	copy(p.Gating, []float64{30, 40, 3, 0})
	p.GatingIntercepts = []float64{10, -5}
	q := soften(p)
	factor := softest / 50.0
	for i, v := range p.Gating {
		if math.Abs(q.Gating[i]-factor*v) > 1e-12 {
			t.Errorf("gate %v, want %v times %v", q.Gating, factor, p.Gating)
		}
	}
	if math.Abs(q.GatingIntercepts[0]-factor*10) > 1e-12 {
		t.Errorf("intercepts %v", q.GatingIntercepts)
	}
	if again := soften(q); !slices.Equal(again.Gating, q.Gating) {
		t.Errorf("a soft gate became %v", again.Gating)
	}
}
