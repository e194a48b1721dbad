package gauss_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// counted is a function that counts its batches.
func counted(f func(float64) float64, calls *int) gauss.Func {
	return func(_ context.Context, dst, z []float64) error {
		*calls++
		for i, v := range z {
			dst[i] = f(v)
		}
		return nil
	}
}

func grid(t testing.TB, f func(float64) float64, kinks ...float64) *gauss.Grid {
	t.Helper()
	var calls int
	g, err := gauss.NewGrid(t.Context(), counted(f, &calls), kinks)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// doubleFactorial returns n!! = E[Z^{n+1}] for odd n.
func doubleFactorial(n int) float64 {
	r := 1.0
	for ; n > 1; n -= 2 {
		r *= float64(n)
	}
	return r
}

// absolute returns E|Z|^n.
func absolute(n int) float64 {
	if n%2 == 0 {
		return doubleFactorial(n - 1)
	}
	return math.Sqrt(2/math.Pi) * doubleFactorial(n-1)
}

func relu(z float64) float64 { return math.Max(z, 0) }

func tailArea(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 } // P(Z > x)

func density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

func TestHermite(t *testing.T) {
	explicit := []func(z float64) float64{
		func(float64) float64 { return 1 },
		func(z float64) float64 { return z },
		func(z float64) float64 { return z*z - 1 },
		func(z float64) float64 { return z*z*z - 3*z },
		func(z float64) float64 { return z*z*z*z - 6*z*z + 3 },
	}
	for q, want := range explicit {
		for _, z := range []float64{-3.7, -1, 0, 0.3, 2, 11} {
			var byCoefficients float64
			for j, c := range gauss.HermiteCoefficients(q) {
				byCoefficients += c * math.Pow(z, float64(j))
			}
			for _, got := range []float64{gauss.Hermite(q, z), byCoefficients} {
				if math.Abs(got-want(z)) > 1e-12*math.Max(1, math.Abs(want(z))) {
					t.Errorf("He%d(%v) = %v, want %v", q, z, got, want(z))
				}
			}
		}
	}
}

// TestOrthogonality: E[He_p·He_q] = p! where p = q, else 0.
func TestOrthogonality(t *testing.T) {
	g := grid(t, func(z float64) float64 { return z })
	for p := range 9 {
		for q := range 9 {
			got, bound := g.Expect(func(z, _ float64) float64 { return gauss.Hermite(p, z) * gauss.Hermite(q, z) })
			want := 0.0
			if p == q {
				want = math.Gamma(float64(p) + 1)
			}
			if math.Abs(got-want) > bound {
				t.Errorf("E[He%d·He%d] = %v ± %.1e, want %v", p, q, got, bound, want)
			}
		}
	}
}

// TestExpect compares with closed forms: the value must lie within the stated
// bound, and the bound within a tolerance that grows with what is asked for.
func TestExpect(t *testing.T) {
	type f = func(z, g float64) float64
	powers := func(p, q int) f {
		return func(z, g float64) float64 { return math.Pow(g, float64(p)) * math.Pow(z, float64(q)) }
	}
	logistic := func(z float64) float64 { return 1 / (1 + math.Exp(-z)) }
	for _, c := range []struct {
		name  string
		g     func(float64) float64
		kinks []float64
		f     f
		want  float64
		tol   float64 // of the bound, relative
	}{
		{"1", relu, []float64{0}, powers(0, 0), 1, 2e-14},
		{"relu z", relu, []float64{0}, powers(1, 1), 0.5, 2e-14},
		{"relu 4 4", relu, []float64{0}, powers(4, 4), 52.5, 2e-14},
		{"relu 3 2", relu, []float64{0}, powers(3, 2), absolute(5) / 2, 2e-14},
		{"relu 8 8, for V4", relu, []float64{0}, powers(8, 8), doubleFactorial(15) / 2, 1e-13},
		{"cube 8 8, for V4", func(z float64) float64 { return z * z * z }, nil, powers(8, 8), doubleFactorial(31), 1e-13},
		{"shifted relu, kink declared", func(z float64) float64 { return relu(z - .3) }, []float64{.3}, powers(1, 0), density(.3) - .3*tailArea(.3), 2e-14},
		{"shifted relu, kink undeclared", func(z float64) float64 { return relu(z - .3) }, nil, powers(1, 0), density(.3) - .3*tailArea(.3), 1e-13},
		{"step, undeclared", func(z float64) float64 { return math.Copysign(1, z-.3) }, nil, powers(1, 0), 2*tailArea(.3) - 1, 1e-12},
		{"step, times z", func(z float64) float64 { return math.Copysign(1, z-.3) }, nil, powers(1, 1), 2 * density(.3), 1e-12},
		{"logistic", logistic, nil, powers(1, 0), 0.5, 1e-13},
		{"steep logistic", func(z float64) float64 { return logistic(1000 * z) }, nil, powers(1, 0), 0.5, 1e-13},
		{"exp", math.Exp, nil, powers(4, 0), math.Exp(8), 1e-13},
		{"exp 8", math.Exp, nil, powers(8, 0), math.Exp(32), 1e-12},
		{"sine", func(z float64) float64 { return math.Sin(50*z + 1) }, nil, powers(2, 0), (1 - math.Cos(2)*math.Exp(-5000)) / 2, 1e-12},
		{"offset", func(z float64) float64 { return 50 + math.Tanh(z) }, nil, powers(1, 0), 50, 1e-13},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, bound := grid(t, c.g, c.kinks...).Expect(c.f)
			if math.Abs(got-c.want) > bound {
				t.Errorf("%v is off %v by %.2e, the bound says %.2e", got, c.want, got-c.want, bound)
			}
			if bound > c.tol*math.Abs(c.want) {
				t.Errorf("bound %.2e, want at most %.2e", bound, c.tol*math.Abs(c.want))
			}
		})
	}
}

// TestMeans: means are the values of Expect, to the byte.
func TestMeans(t *testing.T) {
	grid, err := gauss.NewGrid(t.Context(), batch(math.Exp), nil)
	if err != nil {
		t.Fatal(err)
	}
	square, cube := func(_, g float64) float64 { return g * g }, func(z, g float64) float64 { return g * z * z * z }
	got := grid.Means(2, func(at []float64, z, g float64) { at[0], at[1] = square(z, g), cube(z, g) })
	for i, f := range []func(z, g float64) float64{square, cube} {
		if want, _ := grid.Expect(f); got[i] != want || grid.Mean(f) != want {
			t.Errorf("mean %d is %v, and %v alone, want %v", i, got[i], grid.Mean(f), want)
		}
	}
}

// TestBatches: an activation may sit behind a connection, so calls are few.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		g     func(float64) float64
		kinks []float64
		calls int
	}{
		{"smooth", math.Tanh, nil, 2},
		{"kink declared", relu, []float64{0}, 2},
		{"two kinks declared", func(z float64) float64 { return relu(z-.3) + relu(z+1.7) }, []float64{.3, -1.7}, 2},
		{"kink undeclared", func(z float64) float64 { return relu(z - .3) }, nil, 10},
		{"jump undeclared", func(z float64) float64 { return math.Copysign(1, z-.3) }, nil, 21},
	} {
		var calls int
		if _, err := gauss.NewGrid(t.Context(), counted(c.g, &calls), c.kinks); err != nil {
			t.Fatal(err)
		}
		if calls > c.calls {
			t.Errorf("%s: %d calls, want at most %d", c.name, calls, c.calls)
		}
	}
}

// TestNoise: a function that no rule resolves ends, and its error bound says so.
func TestNoise(t *testing.T) {
	g := grid(t, func(z float64) float64 { return math.Mod(math.Abs(z)*1e9, 1) })
	if _, bound := g.Expect(func(_, g float64) float64 { return g }); bound < 1e-6 {
		t.Errorf("bound %v for a function that cannot be resolved", bound)
	}
}

func TestFaults(t *testing.T) {
	failing := errors.New("gone")
	for _, c := range []struct {
		name  string
		g     gauss.Func
		kinks []float64
		is    error
		says  string
	}{
		{"growth", counted(func(z float64) float64 { return math.Exp(z * z / 8) }, new(int)), nil, gauss.ErrGrowth, "too fast"},
		{"infinite", counted(func(z float64) float64 { return 1 / math.Max(0, z-1e9) }, new(int)), nil, nil, "z = -19."},
		{"not a number", counted(func(z float64) float64 { return math.Log(z + 19) }, new(int)), nil, nil, "NaN"},
		{"failing", func(context.Context, []float64, []float64) error { return failing }, nil, failing, "gone"},
		{"kink", counted(math.Tanh, new(int)), []float64{math.NaN()}, nil, "kink"},
	} {
		_, err := gauss.NewGrid(t.Context(), c.g, c.kinks)
		if err == nil || (c.is != nil && !errors.Is(err, c.is)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
	}
}

func TestPoints(t *testing.T) {
	z, v := grid(t, func(z float64) float64 { return relu(z - .3) }).Points()
	if !slices.IsSorted(z) {
		t.Error("nodes are not in ascending order")
	}
	for i := range z {
		if v[i] != relu(z[i]-.3) {
			t.Fatalf("value at %v is %v", z[i], v[i])
		}
	}
}

func BenchmarkNewGrid(b *testing.B) {
	for name, f := range map[string]func(float64) float64{"smooth": math.Tanh, "undeclared kink": func(z float64) float64 { return relu(z - .3) }} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				grid(b, f)
			}
		})
	}
}
