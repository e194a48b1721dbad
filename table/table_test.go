package table_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/activationtest"
	"github.com/gatedlearning/moe/table"
)

func values(t testing.TB, act sdk.Activation, z []float64) (g, dg []float64) {
	t.Helper()
	g, dg = make([]float64, len(z)), make([]float64, len(z))
	if err := errors.Join(act.Eval(context.Background(), g, z), act.Deriv(context.Background(), dg, z)); err != nil {
		t.Fatal(err)
	}
	return g, dg
}

func must(t testing.TB, z, g, dg []float64) *table.Table {
	t.Helper()
	act, err := table.New(z, g, dg)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestSpline compares with R 4: splinefun(z, g, method = "natural"), its values and its deriv = 1, to the
// digits printed. Beyond the ends R's goes on as a line too.
func TestSpline(t *testing.T) {
	act := must(t, []float64{-2, -1.5, -.3, .1, 1, 2.5}, []float64{.3, -.2, 1, 1.4, .2, -3}, nil)
	g, dg := values(t, act, []float64{-3, -1.9, -.8, 0, .55, 2.2, 4})
	near(t, "g", g, []float64{1.616686749676441, 0.169598072031062, 0.256825557985352, 1.350837796224394,
		1.067062859820592, -2.359036015530861, -6.205020752443433}, 1e-14)
	near(t, "g′", dg, []float64{-1.316686749676441, -1.278684339715268, 1.360992472590411, 0.717263578346052,
		-1.530153523452493, -2.136278841433481, -2.136680501628955}, 1e-14)
	if kind := act.Data().Kind; kind != table.Spline {
		t.Errorf("kind %q", kind)
	}
}

// TestMonotone: where the values rise, or fall, so does the curve, through all points; the natural spline
// through a step does not.
func TestMonotone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cuts := 0
	for range 200 {
		n := 3 + rng.IntN(20)
		z, g := make([]float64, n), make([]float64, n)
		for i := 1; i < n; i++ {
			z[i] = z[i-1] + .01 + rng.ExpFloat64()
			g[i] = g[i-1] + float64(rng.IntN(3))*rng.ExpFloat64()*rng.ExpFloat64()
		}
		if rng.IntN(2) == 0 {
			for i := range g {
				g[i] = -g[i]
			}
		}
		act := must(t, z, g, nil)
		if act.Data().Kind == table.Monotone {
			cuts++
		}
		var at []float64
		for v := -1.0; v < z[n-1]+1; v += .003 {
			at = append(at, v)
		}
		_, dy := values(t, act, at)
		for i, d := range dy {
			if g[n-1] < 0 {
				d = -d
			}
			if d < -1e-12 {
				t.Fatalf("z %v, g %v: g′(%v) = %v", z, g, at[i], dy[i])
			}
		}
		through, _ := values(t, act, z)
		near(t, "g at its points", through, g, 1e-12)
	}
	if cuts < 50 {
		t.Errorf("%d of 200 natural splines had to be cut", cuts)
	}
}

// TestGiven: a cubic on each interval with the slopes given is the cubic that they were taken from.
func TestGiven(t *testing.T) {
	cubic := func(z float64) float64 { return 1 + z*(2+z*(-.5+.3*z)) }
	slope := func(z float64) float64 { return 2 + z*(-1+.9*z) }
	z := []float64{-2, -.7, .1, 2}
	var g, dg []float64
	for _, v := range z {
		g, dg = append(g, cubic(v)), append(dg, slope(v))
	}
	act := must(t, z, g, dg)
	at := []float64{-1.9, -.7, 0, .1, 1.234, 1.999}
	y, dy := values(t, act, at)
	for i, v := range at {
		if math.Abs(y[i]-cubic(v)) > 1e-13 || math.Abs(dy[i]-slope(v)) > 1e-13 {
			t.Errorf("at %v: %v and %v, want %v and %v", v, y[i], dy[i], cubic(v), slope(v))
		}
	}
	y, dy = values(t, act, []float64{-5, 7, math.NaN()})
	near(t, "lines", y[:2], []float64{cubic(-2) - 3*slope(-2), cubic(2) + 5*slope(2)}, 1e-13)
	near(t, "their slopes", dy[:2], []float64{slope(-2), slope(2)}, 0)
	if y[2] == y[2] || dy[2] == dy[2] {
		t.Error("NaN has a value")
	}
}

// TestMoments: E[g(Z)·Z^q] of lines and cubics between points by the recurrence of truncated normal
// moments, M_q = q−1 times M_{q−2} plus a^{q−1}φ(a) − b^{q−1}φ(b).
func TestMoments(t *testing.T) {
	act := must(t, []float64{-1, .2, 1.3}, []float64{0, .5, -1}, []float64{.1, 2, -.7})
	d := act.Data()
	truncated := func(a, b float64, q int) float64 { // ∫_a^b z^q φ(z) dz
		phi := func(x float64, q int) float64 {
			if math.IsInf(x, 0) {
				return 0
			}
			return math.Pow(x, float64(q)) * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
		}
		m := []float64{(math.Erf(b/math.Sqrt2) - math.Erf(a/math.Sqrt2)) / 2, phi(a, 0) - phi(b, 0)}
		for j := 2; j <= q; j++ {
			m = append(m, float64(j-1)*m[j-2]+phi(a, j-1)-phi(b, j-1))
		}
		return m[q]
	}
	moments, err := act.Moments(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for q := range 5 {
		want := 0.0
		piece := func(a, b float64, coefficients ...float64) {
			for j, c := range coefficients {
				want += c * truncated(a, b, q+j)
			}
		}
		piece(math.Inf(-1), d.Z[0], d.G[0]-d.Slopes[0]*d.Z[0], d.Slopes[0])
		piece(d.Z[2], math.Inf(1), d.G[2]-d.Slopes[2]*d.Z[2], d.Slopes[2])
		for i := range 2 { // Newton's form of the cubic with these values and slopes, multiplied out
			a, b := d.Z[i], d.Z[i+1]
			h := b - a
			s := (d.G[i+1] - d.G[i]) / h
			c2 := (s - d.Slopes[i]) / h
			c3 := (d.Slopes[i+1] - 2*s + d.Slopes[i]) / (h * h)
			// g_a + m_a(z−a) + c2(z−a)² + c3(z−a)²(z−b)
			piece(a, b, d.G[i]-d.Slopes[i]*a+c2*a*a-c3*a*a*b, d.Slopes[i]-2*c2*a+c3*(a*a+2*a*b), c2-c3*(2*a+b), c3)
		}
		if got := moments.Value[1][q]; math.Abs(got-want) > 1e-14 {
			t.Errorf("E[g·Z^%d] = %v, want %v", q, got, want)
		}
	}
}

// TestKit: what any activation is held to, through a plugin's protocol as well.
func TestKit(t *testing.T) {
	var z, g []float64
	for v := -5.0; v <= 5; v += .25 {
		z, g = append(z, v), append(g, math.Log1p(math.Exp(2*v))/2)
	}
	act := must(t, z, g, nil)
	activationtest.Run(t, act)
	// Half the points are off by h⁴/384·max g⁗ at most in the middle, with h = ½ and g⁗ = 8·σ‴, below 1.
	if e := act.Error(); !(e > 1e-5 && e < 1e-3) {
		t.Errorf("error %v", e)
	}
}

// TestCrowded: intervals are found where most points crowd in a thousandth of the range.
func TestCrowded(t *testing.T) {
	var z, g []float64
	for i := range 1000 {
		z, g = append(z, float64(i)*1e-6), append(g, math.Sin(float64(i)))
	}
	z, g = append([]float64{-1}, append(z, 1)...), append([]float64{0}, append(g, 2)...)
	act := must(t, z, g, nil)
	y, _ := values(t, act, z)
	near(t, "g", y, g, 1e-9)
}

func TestParse(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"z,g\n0,0\n1,1\n2,3\n", ""},
		{"\ufeffdg, z ,\"g\"\r\n1,0,0\r\n1,1,1\r\n2,2,3\r\n\r\n", ""},
		{"z,g,g′\n0,0,1\n1,1,1\n2,3,1", ""},
		{"", "c.csv:1: a column \"\""},
		{"0,1\n1,2\n2,3", "c.csv:1: a column \"0\"; want the names z, g"},
		{"z,z\n", "c.csv:1: column z is named twice"},
		{"z,dg\n", "c.csv:1: want the names z, g"},
		{"z,g\n0,0\n1\n", "c.csv:3: 1 fields, want 2"},
		{"z,g\n0,0\n\n1,1e\n", "c.csv:4: g is \"1e\", want a finite decimal number"},
		{"z,g\n0,0\n1,NaN\n", "c.csv:3: g is \"NaN\""},
		{"z,g\n0,0\n1,1\n\n1,2\n", "c.csv:5: z is 1 after 1; want z ascending"},
		{"z,g\n0,0\n1,1\n1.0000000001,2\n", "c.csv:4: z is 1.0000000001 after 1; want neighbours further apart"},
		{"z,g\n0,0\n1,1\n2e6,2\n", "c.csv:4: z is 2e+06; want numbers within ±1e+06"},
		{"z,g\n0,0\n1,1e13\n2,2\n", "c.csv:3: g is 1e+13"},
		{"z,g,dg\n0,0,0\n1,1,-1e13\n2,2,0\n", "c.csv:3: dg is -1e+13"},
		{"z,g\n0,0\n1,1\n", "c.csv: points: 2; want 3 to 4096"},
		{"z,g\n" + strings.Repeat("1,1\n", 5000), "c.csv:4098: more than 4096 points"},
		{"z,g\n\xff,1\n", "c.csv: no text"},
		{strings.Repeat(" ", table.MaxSize+1), "c.csv: more than 1048576 bytes"},
	} {
		act, err := table.Parse([]byte(test.text), "c.csv")
		switch fault := (*table.Error)(nil); {
		case test.want == "":
			if err != nil {
				t.Errorf("%.30q: %v", test.text, err)
				continue
			}
			if y, _ := values(t, act, []float64{2}); y[0] != 3 {
				t.Errorf("%.30q: g(2) = %v", test.text, y[0])
			}
		case !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), test.want):
			t.Errorf("%.30q: %v, want %s", test.text, err, test.want)
		}
	}
}

// TestNames: a name is of the numbers, whatever the file is called and however they came.
func TestNames(t *testing.T) {
	z, g := []float64{0, 1, 2}, []float64{0, 1, 3}
	a, b := must(t, z, g, nil), must(t, z, []float64{0, 1, 3.0000001}, nil)
	if again := must(t, z, g, a.Data().Slopes); again.Info().Name != a.Info().Name {
		t.Errorf("%s and %s of the same numbers", a.Info().Name, again.Info().Name)
	}
	if a.Info().Name == b.Info().Name {
		t.Errorf("%s of two curves", a.Info().Name)
	}
	d := a.Data()
	d.Slopes = nil
	if _, err := d.Open(); err == nil {
		t.Error("data without slopes open")
	}
	d = a.Data()
	d.Kind = "line"
	if _, err := d.Open(); err == nil {
		t.Error("data of no kind open")
	}
}

// FuzzParse: a text is a table or an error of one line; a table is finite everywhere, and what it writes is
// the same one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"z,g\n0,0\n1,1\n2,3\n", "z,g,dg\n-1,0,1\n0,5,-2\n2e5,3,1e12\n", "g,z\n1,1\n",
		"z,g\n0,0\n1e-9,1e12\n1,0"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		act, err := table.Parse(text, "t")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q", err)
			}
			return
		}
		lo, hi := act.Range()
		at := []float64{-1e6, lo - 1, lo, hi, hi + 1, 1e6}
		for i := range 50 {
			at = append(at, lo+(hi-lo)*float64(i)/50)
		}
		g, dg := values(t, act, at)
		for i := range at {
			if g[i]-g[i] != 0 || dg[i]-dg[i] != 0 {
				t.Fatalf("g(%v) = %v, g′ = %v", at[i], g[i], dg[i])
			}
		}
		var b bytes.Buffer
		if err := act.WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		again, err := table.Parse(b.Bytes(), "t")
		if err != nil || again.Info().Name != act.Info().Name {
			t.Fatalf("written and read again: %v", err)
		}
	})
}
