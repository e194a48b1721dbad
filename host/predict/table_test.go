package predict

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// mixtureCDF is F(y) = Σ_i p_i·Φ((y − m_i)/σ_i) written out.
func mixtureCDF(p, mean, sigma []float64, y float64) float64 {
	sum := 0.0
	for i := range p {
		sum += p[i] * distuv.Normal{Mu: mean[i], Sigma: sigma[i]}.CDF(y)
	}
	return sum
}

func TestExtraColumns(t *testing.T) {
	const n = model.BlockRows + 5
	p, x, y := randomModel(n)
	src := Predictions(p, tanh{}, dataset.Matrix(x, y), Extras{Experts: true, Interval: 0.9})
	columns := []string{"mean", "p1", "p2", "p3", "posterior1", "posterior2", "posterior3", "mean1", "mean2", "mean3", "lower", "upper"}
	if diff := cmp.Diff(columns, src.Schema().Columns()); diff != "" {
		t.Fatal(diff)
	}
	at := 0
	err := src.Read(context.Background(), func(b *model.Block) error {
		for r := range b.N {
			gate, mean := make([]float64, 3), make([]float64, 3)
			for i := range 3 {
				c := p.Regressor(i)
				mean[i] = math.Tanh(c[0]*x.At(at, 0) + c[1]*x.At(at, 1) + p.RegressorIntercepts[i])
				gate[i] = b.Col(1 + i)[r]
				if got := b.Col(7 + i)[r]; math.Abs(got-mean[i]) > 1e-14 {
					t.Fatalf("row %d: mean%d %v, want %v", at, i+1, got, mean[i])
				}
			}
			if lo, hi := mixtureCDF(gate, mean, p.Sigma, b.Col(10)[r]), mixtureCDF(gate, mean, p.Sigma, b.Col(11)[r]); math.Abs(lo-0.05) > 1e-12 || math.Abs(hi-0.95) > 1e-12 {
				t.Fatalf("row %d: the interval is from %v to %v of F", at, lo, hi)
			}
			at++
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%d rows, %v", at, err)
	}
}

// TestCalibration counts by hand; y beyond all experts falls in the outer bins.
func TestCalibration(t *testing.T) {
	const n = model.BlockRows + 50
	p, x, y := randomModel(n)
	y[3], y[4] = 1e150, -1e150 // their squares are finite
	got, err := Evaluate(context.Background(), p, tanh{}, dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	bins, inside := make([]float64, 10), make([]int, 4)
	for r := range n {
		mean := make([]float64, 3)
		_, gate, _, _ := naive(p, x.RawRowView(r), 0)
		for i := range 3 {
			mean[i] = math.Tanh(mat.Dot(x.RowView(r), mat.NewVecDense(2, p.Regressor(i))) + p.RegressorIntercepts[i])
		}
		u := mixtureCDF(gate, mean, p.Sigma, y[r])
		bins[min(int(10*u), 9)]++
		for i, level := range []float64{0.5, 0.8, 0.9, 0.95} {
			if math.Abs(u-0.5) <= level/2 {
				inside[i]++
			}
		}
	}
	if diff := cmp.Diff(bins, got.PITHistogram); diff != "" {
		t.Error(diff)
	}
	for i, c := range got.Calibration {
		if c.Level != []float64{0.5, 0.8, 0.9, 0.95}[i] || c.Coverage != float64(inside[i])/n {
			t.Errorf("coverage %+v, want %d of %d", c, inside[i], n)
		}
	}
}

func BenchmarkIntervals(b *testing.B) {
	p, x, y := randomModel(model.BlockRows)
	data, err := dataset.Load(context.Background(), dataset.Matrix(x, y))
	if err != nil {
		b.Fatal(err)
	}
	predictor := NewPredictor(p, tanh{}, "")
	pred, err := predictor.Predict(context.Background(), &data.Blocks[0])
	if err != nil {
		b.Fatal(err)
	}
	lower, upper := make([]float64, pred.N), make([]float64, pred.N)
	for b.Loop() {
		if err := predictor.Intervals(lower, upper, pred, 0.9); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pred.N), "ns/row")
}
