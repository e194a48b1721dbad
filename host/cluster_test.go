package host

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestClusterIsSandwichOfR: of one linear expert the covariance by clusters is that of R's sandwich::vcovCL(m, cluster =
// g, type = "HC0"), and of clubSandwich::vcovCR(m, cluster = g, type = "CR1"), which agree to 15 digits. The numbers are
// what R 4 prints (sandwich 3.0, clubSandwich 0.5.8) for
//
//	t <- 1:60; g <- (t * 7) %% 12
//	x1 <- ((t * 37) %% 101) / 50 - 1; x2 <- ((t * 53) %% 97) / 48 - 1 + g / 12
//	u <- ((g * 29) %% 13) / 13 - 0.5; e <- ((t * 71) %% 89) / 89 - 0.5
//	y <- 1 + 2 * x1 - x2 + u + e * (1 + abs(x1)); m <- lm(y ~ x1 + x2)
func TestClusterIsSandwichOfR(t *testing.T) {
	const n = 60
	x, y, g := mat.NewDense(n, 2, nil), make([]float64, n), make([]float64, n)
	for r := range n {
		t := r + 1
		id := t * 7 % 12
		x1, x2 := float64(t*37%101)/50-1, float64(t*53%97)/48-1+float64(id)/12
		u, e := float64(id*29%13)/13-0.5, float64(t*71%89)/89-0.5
		x.SetRow(r, []float64{x1, x2})
		y[r], g[r] = 1+2*x1-x2+u+e*(1+math.Abs(x1)), float64(id)
	}
	m, err := Fit(t.Context(), activation(identity.Family, nil), dataset.Matrix(x, y).With(model.Clusters, "g", g),
		Config{K: 1, Intercepts: BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	// x1, x2 and the intercept
	want := mat.NewSymDense(3, []float64{
		0.0141922419357672323, -0.0044953446692277245, 0.0024858845700618089,
		-0.0044953446692277245, 0.0152288346755365244, -0.0047543097790206986,
		0.0024858845700618089, -0.0047543097790206986, 0.0080544825083544505,
	})
	for i := range 3 {
		for j := range 3 {
			if got, want := m.Covariance.Matrix[i][j], want.At(i, j); math.Abs(got/want-1) > 1e-8 {
				t.Errorf("covariance of %s and %s %v, want %v", m.Covariance.Parameters[i], m.Covariance.Parameters[j], got, want)
			}
		}
	}
	c := m.StandardErrors.Clusters
	if m.StandardErrors.Kind != string(Clustered) || c == nil || c.Column != "g" || c.Count != 12 {
		t.Fatalf("kind %s of %+v", m.StandardErrors.Kind, c)
	}
	if want := 2.200985160082949; math.Abs(c.CriticalValue-want) > 1e-6 { // qt(0.975, 11)
		t.Errorf("critical value %v, want %v", c.CriticalValue, want)
	}
}

// clusterSets is how many data sets of each cell the study of standard errors by clusters has.
var clusterSets = flag.Int("clustersets", 0, "data sets per cell of the study of standard errors by clusters")

// TestClusterCoverage: rows of clusters of ten, with one effect of the cluster on all its targets and a feature that
// hardly varies within it. The model of a row is right, and its intervals by the sandwich of rows are too narrow; those
// by clusters hold what they say at 100 and 400 clusters. docs/studies/inference.md has what it prints:
//
//	go test ./host -run TestClusterCoverage -clustersets 170 -v -timeout 0
func TestClusterCoverage(t *testing.T) {
	testslow.Mark(t)
	sets := *clusterSets
	cells := []int{20, 40, 100, 400}
	if sets == 0 {
		sets, cells = 16, []int{100}
	}
	truth := model.NewParams(2, 2)
	copy(truth.Regressors, []float64{1, 0.5, -1, 0.5})
	copy(truth.Gating, []float64{0.5, 1})
	truth.RegressorIntercepts, truth.GatingIntercepts = []float64{0.5, -0.5}, []float64{0.3}
	truth.Sigma[0] = 0.5
	fitOf := func(src dataset.Source, cfg Config) *fitted.Model {
		t.Helper()
		m, err := Fit(t.Context(), activation(identity.Family, nil), src, cfg)
		if err != nil || m.StandardErrors == nil {
			t.Fatalf("no standard errors: %v", err)
		}
		return m
	}
	count := func(in *intervals, m *fitted.Model, critical float64) {
		_, perm := metric.EregOf(m.Params(), truth, stated.Kinds(m.Leaves))
		for i, j := range perm {
			for at, a := range m.Regressors[i] {
				in.within(a, critical*m.StandardErrors.Regressors[i][at], truth.Regressor(j)[at])
			}
			in.within(m.RegressorIntercepts[i], critical*m.StandardErrors.RegressorIntercepts[i],
				truth.RegressorIntercepts[j])
		}
	}
	share := func(in intervals) float64 { return float64(in.in) / float64(in.of) }
	for _, clusters := range cells {
		var by, robust intervals
		for seed := range sets {
			src, plain := clusteredRows(truth, clusters, 10, uint64(100*clusters+seed))
			cfg := Config{K: 2, Intercepts: BothIntercepts, Method: EM{Starts: 1}, Start: truth.Clone()}
			m := fitOf(src, cfg)
			count(&by, m, m.StandardErrors.Clusters.CriticalValue)
			cfg.Errors = []ErrorKind{Robust}
			count(&robust, fitOf(plain, cfg), 1.96)
		}
		t.Logf("%d clusters: %v by clusters, %v robust", clusters, by, robust)
		// Intervals of one fit hang together, as if there were half as many: four standard errors of their share, one
		// false alarm in 30,000.
		slack := 4 * math.Sqrt(0.95*0.05/(float64(by.of)/2))
		if clusters >= 100 && (share(by) < 0.95-max(0.02, slack) || share(by) > 0.95+max(0.02, slack)) {
			t.Errorf("%d clusters: the intervals by clusters hold %v", clusters, by)
		}
		if clusters >= 100 && share(robust) > 0.88 {
			t.Errorf("%d clusters: the robust intervals hold %v: nothing is shown", clusters, robust)
		}
	}
}

// clusteredRows are rows of two linear experts in clusters of so many, the effect of a cluster on its targets half of
// the noise's variance, and its first feature nearly the same in all of its rows.
func clusteredRows(p *model.Params, clusters, size int, seed uint64) (by, plain *dataset.Table) {
	rng := rand.New(rand.NewPCG(seed, 34))
	x, y, ids := mat.NewDense(clusters*size, 2, nil), make([]float64, clusters*size), make([]float64, clusters*size)
	for g := range clusters {
		level, effect := rng.NormFloat64(), rng.NormFloat64()
		for r := g * size; r < (g+1)*size; r++ {
			x1, x2 := 0.95*level+math.Sqrt(1-0.95*0.95)*rng.NormFloat64(), rng.NormFloat64()
			x.SetRow(r, []float64{x1, x2})
			i := 1
			if logit := p.Gating[0]*x1 + p.Gating[1]*x2 + p.GatingIntercepts[0]; rng.Float64() < 1/(1+math.Exp(-logit)) {
				i = 0
			}
			a := p.Regressor(i)
			y[r] = a[0]*x1 + a[1]*x2 + p.RegressorIntercepts[i] + p.Sigma[0]*(effect+rng.NormFloat64())/math.Sqrt2
			ids[r] = float64(g)
		}
	}
	plain = dataset.Matrix(x, y)
	return plain.With(model.Clusters, "site", ids), plain
}
