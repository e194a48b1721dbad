package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
)

// ray is the empirical L4 along the ray on which it falls fastest.
func ray() *Figure {
	f := &Figure{
		ID: "ray", Title: "The empirical L4 along its worst ray", Source: "beyond the papers; 002 Theorem 2",
		Claim: "The empirical L4 inherits the landscape of its population value once n is large enough.",
		Settings: "Identity, k = 2, d = 10, σ = 0.05, μ = 0.01, λ = 50, no ridge (a ridge adds a multiple of t², " +
			"which changes nothing far out). A has the row t·u and a row of zeros; u is the unit vector with the " +
			"least coefficient λT2(u,u)² − μT4(u,u,u,u) of t⁴ in the sample, the least of 20 descents. The " +
			"population value is taken along the u of the largest sample.",
		X: Axis{Label: "t"}, Y: Axis{Label: "L4(t·u) / L4(0)", Min: -1.5, Max: 1.5}, judge: judgeRay,
		Columns: []string{"n", "coefficient of t⁴", "largest |⟨u, a_i*⟩|", "L4 < 0 from t ="},
	}
	ns := []int{1000, 10000, 100000}
	f.units = append(f.units, unit{key: fmt.Sprintf("ray %v to t = %g", ns, rayEnd),
		run: func(ctx context.Context, seed uint64) (*output, error) { return rayRun(ctx, seed, ns) }})
	return f
}

func rayRun(ctx context.Context, seed uint64, ns []int) (*output, error) {
	s := paper("identity", 2)
	out := new(output)
	var st *study
	var u []float64
	for _, n := range ns {
		var err error
		if st, err = s.open(ctx, seed, n); err != nil {
			return nil, err
		}
		t2, t4, err := st.tensors(ctx)
		if err != nil {
			return nil, err
		}
		one := tensor.NewL4(1, t2, t4, 0.01, 50, 0)
		if u, err = steepest(ctx, st, one, 20); err != nil {
			return nil, err
		}
		if err := addRay(ctx, out, st, one, u, fmt.Sprintf("n = %d", n)); err != nil {
			return nil, err
		}
	}
	t2, t4 := tensor.Population([]float64{0.5, 0.5}, mat.NewDense(2, s.d, st.truth.Regressors))
	return out, addRay(ctx, out, st, tensor.NewL4(1, t2, t4, 0.01, 50, 0), u, seriesPopulation)
}

const seriesPopulation = "population"

// rayEnd is how far along the ray the picture goes: to where the population
// value has turned up again.
const rayEnd = 60.0

// tensors returns T̂2/c2 and T̂4/c4 in ℝ^d.
func (s *study) tensors(ctx context.Context) (*mat.SymDense, *tensor.Sym4, error) {
	data, err := s.table(ctx)
	if err != nil {
		return nil, nil, err
	}
	second, err := tensor.SumSecond(ctx, data, 1)
	if err != nil {
		return nil, nil, err
	}
	eye := mat.NewDense(s.d, s.d, nil)
	for i := range s.d {
		eye.Set(i, i, 1)
	}
	fourth, err := tensor.SumFourth(ctx, data, eye, nil, 1)
	if err != nil {
		return nil, nil, err
	}
	t2 := mat.NewSymDense(s.d, nil)
	t2.ScaleSym(1/s.out.C2, second.T2(s.out.Delta, nil))
	t4 := fourth.T4(s.out)
	t4.Scale(1 / s.out.C4)
	return t2, t4, nil
}

// leading is the coefficient of t⁴ of L4 along the ray of x, a function of its
// direction alone.
type leading struct {
	l *tensor.L4
	u []float64
}

func (o *leading) Dim() int { return len(o.u) }

// at returns the coefficient at unit u: half the fourth difference over 12 of
// the polynomial c0 + c2·t² + c4·t⁴ at t = 0, 1, 2.
func (o *leading) at(ctx context.Context, u []float64) (float64, error) {
	var v [3]float64
	x := make([]float64, len(u))
	for i := range v {
		floats.ScaleTo(x, float64(i), u)
		var err error
		if v[i], err = o.l.Value(ctx, x); err != nil {
			return 0, err
		}
	}
	return (v[2] - v[0] - 4*(v[1]-v[0])) / 12, nil
}

func (o *leading) Value(ctx context.Context, x []float64) (float64, error) {
	floats.ScaleTo(o.u, 1/floats.Norm(x, 2), x)
	return o.at(ctx, o.u)
}

// Grad is by central differences: ten coordinates, once a figure.
func (o *leading) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	const h = 1e-6
	y := slices.Clone(x)
	for i := range y {
		y[i] = x[i] + h
		up, err := o.Value(ctx, y)
		if err != nil {
			return 0, err
		}
		y[i] = x[i] - h
		down, err := o.Value(ctx, y)
		if err != nil {
			return 0, err
		}
		y[i] = x[i]
		dst[i] = (up - down) / (2 * h)
	}
	return o.Value(ctx, x)
}

// steepest returns the direction with the least coefficient of t⁴ that descents from
// so many random ones find.
func steepest(ctx context.Context, st *study, l *tensor.L4, starts int) ([]float64, error) {
	o := &leading{l, make([]float64, st.d)}
	var best []float64
	value := math.Inf(1)
	for range starts {
		r, err := optim.LBFGS(ctx, o, st.unitRows(1), optim.Settings{Iterations: 200, Tolerance: 1e-6})
		if err != nil {
			return nil, err
		}
		if r.Value < value {
			value, best = r.Value, r.X
		}
	}
	floats.Scale(1/floats.Norm(best, 2), best)
	return best, nil
}

// addRay adds the curve of L4 along the ray of the unit vector u, and its row of
// the table.
func addRay(ctx context.Context, o *output, st *study, l *tensor.L4, u []float64, name string) error {
	t, x := new(trace), make([]float64, len(u))
	const rows = 2 // the row of zeros adds λ
	base := rows * l.Lambda
	for i := range 121 {
		at := rayEnd * float64(i) / 120
		floats.ScaleTo(x, at, u)
		v, err := l.Value(ctx, x)
		if err != nil {
			return err
		}
		t.add(at, (v+l.Lambda)/base)
	}
	o.add("", name, 0, t)
	o.Curves[len(o.Curves)-1].Reference = name == seriesPopulation
	quartic, err := (&leading{l, x}).at(ctx, u)
	if err != nil {
		return err
	}
	floats.ScaleTo(x, 1, u)
	one, err := l.Value(ctx, x)
	if err != nil {
		return err
	}
	along := 0.0
	for i := range st.k {
		along = max(along, math.Abs(floats.Dot(u, st.truth.Regressor(i))))
	}
	o.Rows = append(o.Rows, []string{name, g2(quartic), g2(along), negativeFrom(l.Lambda, one, quartic)})
	return nil
}

// negativeFrom says from which t on λ + (λ + b·t² + c·t⁴) is negative, where c
// is the quartic coefficient and one = λ + b + c.
func negativeFrom(lambda, one, c float64) string {
	if c >= 0 {
		return "never"
	}
	b := one - lambda - c
	return g2(math.Sqrt((-b - math.Sqrt(b*b-8*lambda*c)) / (2 * c)))
}

func judgeRay(o *Outcome) Verdict {
	v := Verdict{Measured: "least coefficient of t⁴:"}
	falls := 0
	for _, row := range o.Rows {
		if row[0] == seriesPopulation {
			v.Measured += fmt.Sprintf(" and along the last of these rays %s in the population", row[1])
			continue
		}
		v.Measured += fmt.Sprintf(" %s at %s,", row[1], row[0])
		if row[3] != "never" {
			falls++
		}
	}
	if v.Agrees = falls == 0; !v.Agrees {
		v.Because = fmt.Sprintf("at %d of the %d n tried the empirical L4 has a ray on which it falls like −t⁴: "+
			"outside the regressors' span T2 is about 0 and T4 is noise of either sign", falls, len(o.Rows)-1)
	}
	return v
}
