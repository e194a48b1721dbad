package recheck

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// NetworkFit is a network that is to be checked. Weights multiply the rows' squares.
type NetworkFit struct {
	Rows    model.Rows
	Act     model.Activation // φ
	Network *model.Network
	Loss    float64 // what is stated: Σ_rows w·(y − f(x))²/2 over Σ w
	Workers int     // 0: one per processor; nothing depends on it
}

// Check returns an [*Error] unless the second computation gives the loss that is stated, and the one in
// many digits that of the sampled rows: both to 1e−9 of it and what the rounding of y, f and the units' arguments alone
// explains. Other errors are those of the rows and of φ.
func (f NetworkFit) Check(ctx context.Context) error {
	var s sums
	for _, rounding := range []bool{false, true} { // which is seldom wanted
		var err error
		if s, err = sumOf(ctx, f.Rows, f.Act, f.Workers, rounding,
			func() terms { return newUnits(f.Network) }); err != nil {
			return err
		}
		if s.agrees(-f.Loss * s.weight.value()) {
			return nil
		}
	}
	return &Error{ofNetwork, f.Loss, -s.loglik.value() / s.weight.value()}
}

// units is where the rows of a block are computed: arguments and values of the units, K rows of n values, and
// how far rounding of the arguments takes the values.
type units struct {
	net           *model.Network
	z, phi, moved []float64
	n             int
}

func newUnits(net *model.Network) *units {
	kn := func() []float64 { return make([]float64, net.K*model.BlockRows) }
	return &units{net: net, z: kn(), phi: kn(), moved: kn()}
}

func (u *units) take(ctx context.Context, act model.Activation, b *model.Block, rounding bool) error {
	u.n = b.N
	size := u.net.K * b.N
	z, phi, moved := u.z[:size], u.phi[:size], u.moved[:size]
	predictors(z, u.net.Weights, nil, u.net.K, u.net.D, b)
	if err := act.Eval(ctx, phi, z); err != nil || !rounding {
		return err
	}
	// Also where the argument is next to a kink: the values at the ends of what it may be.
	ends := make([]float64, size)
	clear(moved)
	for _, side := range []float64{-1, 1} {
		for i := range u.net.K {
			for t := range b.N {
				at := i*b.N + t
				ends[at] = z[at] + side*(dotRounding(u.net.Unit(i), b, t)+8*unit*math.Abs(z[at]))
			}
		}
		if err := act.Eval(ctx, ends, ends); err != nil {
			return err
		}
		for at, v := range ends {
			moved[at] = max(moved[at], math.Abs(v-phi[at]))
		}
	}
	return nil
}

// dotRounding bounds by what two roundings of ⟨w, x⟩ of row t differ.
func dotRounding(w []float64, b *model.Block, t int) float64 {
	sum := 0.0
	for j, v := range w {
		sum += math.Abs(v) * math.Abs(b.X[j*b.N+t])
	}
	return 2 * float64(len(w)+3) * unit * sum
}

// residual is y − f(x) of row t, from the last unit to the first.
func (u *units) residual(b *model.Block, t int) float64 {
	sum := 0.0
	for i := u.net.K - 1; i >= 0; i-- {
		sum += u.net.Output[i] * u.phi[i*u.n+t]
	}
	return b.Y[t] - sum
}

// term returns −(y − f(x))²/2 of row t.
func (u *units) term(b *model.Block, t int) float64 {
	e := u.residual(b, t)
	return -e * e / 2
}

// rounding is |e|·δ + δ²/2, δ the rounding of the residual e.
func (u *units) rounding(b *model.Block, t int, _ float64) float64 {
	delta := 2 * unit * math.Abs(b.Y[t])
	for i, v := range u.net.Output {
		at := i*u.n + t
		delta += math.Abs(v) * (u.moved[at] + float64(8+2*u.net.K)*unit*math.Abs(u.phi[at]))
	}
	return math.Abs(u.residual(b, t))*delta + delta*delta/2
}

func (u *units) exactly(ctx context.Context, act model.Activation, b *model.Block,
	t int) (v float64, ok bool, err error) {
	phi := make([]float64, u.net.K)
	for i := range phi {
		phi[i], _ = exactDot(u.net.Weights, nil, i, u.net.D, b, t).Float64()
	}
	if err := act.Eval(ctx, phi, phi); err != nil {
		return 0, true, err
	}
	e := number(b.Y[t])
	for i, v := range phi {
		if math.IsNaN(v) || math.IsInf(v, 0) { // which has no digits
			return math.NaN(), true, nil
		}
		e.Sub(e, zero().Mul(number(u.net.Output[i]), number(v)))
	}
	v, _ = e.Mul(e, e).Float64()
	return -v / 2, true, nil
}
