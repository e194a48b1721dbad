package solver_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// A number of a system: what messages call it, the power of y and the Hermite order in it.
type number struct {
	name       string
	at         *float64
	power, row int
}

func numbersOf(s *sdk.System) []number {
	return []number{
		{"the α entry of row 1", &s.Matrix[0][0], 3, 1},
		{"the β entry of row 1", &s.Matrix[0][1], 2, 1},
		{"the γ entry of row 1", &s.Matrix[0][2], 1, 1},
		{"the right-hand side of row 1", &s.RHS[0], 4, 1},
		{"the α entry of row 2", &s.Matrix[1][0], 3, 2},
		{"the β entry of row 2", &s.Matrix[1][1], 2, 2},
		{"the γ entry of row 2", &s.Matrix[1][2], 1, 2},
		{"the right-hand side of row 2", &s.RHS[1], 4, 2},
		{"the α entry of row 3", &s.Matrix[2][0], 3, 3},
		{"the β entry of row 3", &s.Matrix[2][1], 2, 3},
		{"the γ entry of row 3", &s.Matrix[2][2], 1, 3},
		{"the right-hand side of row 3", &s.RHS[2], 4, 3},
		{"entry 0 of the row for c4", &s.C4[0], 4, 4},
		{"entry 1 of the row for c4", &s.C4[1], 3, 4},
		{"entry 2 of the row for c4", &s.C4[2], 2, 4},
		{"entry 3 of the row for c4", &s.C4[3], 1, 4},
		{"the δ entry", &s.Delta[0], 1, 1},
		{"the right-hand side of the row for δ", &s.Delta[1], 2, 1},
		{"entry 0 of the row for c2", &s.C2[0], 2, 2},
		{"entry 1 of the row for c2", &s.C2[1], 1, 2},
		{"the third-order α entry of row 1", &s.Cubic.Matrix[0][0], 2, 1},
		{"the third-order β entry of row 1", &s.Cubic.Matrix[0][1], 1, 1},
		{"the third-order right-hand side of row 1", &s.Cubic.RHS[0], 3, 1},
		{"the third-order α entry of row 2", &s.Cubic.Matrix[1][0], 2, 2},
		{"the third-order β entry of row 2", &s.Cubic.Matrix[1][1], 1, 2},
		{"the third-order right-hand side of row 2", &s.Cubic.RHS[1], 3, 2},
		{"entry 0 of the row for c3", &s.Cubic.C3[0], 3, 3},
		{"entry 1 of the row for c3", &s.Cubic.C3[1], 2, 3},
		{"entry 2 of the row for c3", &s.Cubic.C3[2], 1, 3},
	}
}

var thirty = fn("30·tanh", func(z float64) float64 { return 30 * math.Tanh(z) }, nil)

// TestEveryEntryIsCompared: one wrong entry anywhere in a system is found and named, with how
// wrong it is in units of (E[g⁴]^¼ + σ)^p or of itself; what the moments' error excuses is not.
func TestEveryEntryIsCompared(t *testing.T) {
	for _, act := range []sdk.Func{sigmoid, thirty} {
		const sigma = .3
		m := quadrature(t, act)
		natural := func(n number, want float64) float64 {
			return max(math.Pow(math.Pow(m.Value[4][0], .25)+sigma, float64(n.power)), math.Abs(want))
		}
		s := m.System(sigma)
		if reason, check := solver.CompareSystem(s, m); !check.Holds || reason != "" {
			t.Fatal(reason)
		}
		for i, x := range numbersOf(&s) {
			want := *x.at
			by := 1e-6 * natural(x, want)
			*x.at += by
			reason, check := solver.CompareSystem(s, m)
			says := fmt.Sprintf("at σ = 0.3 is wrong: %s is %.10g, the moments of g give %.10g", x.name, *x.at, want)
			if check.Holds || !strings.Contains(reason, says) || !near(check.Value, 1e-6, 1e-11) {
				t.Errorf("%s: %v, %q, want %q", act.Name, check, reason, says)
			}
			uncertain := m
			uncertain.Error[x.power][x.row] = 1.1 * by
			if reason, check := solver.CompareSystem(s, uncertain); check.Holds != (by < 1e-6*(1+m.Value[4][0])) {
				t.Errorf("%s: with an error of %v of E[g^%d·Z^%d]: %s", act.Name, 1.1*by, x.power, x.row, reason)
			}
			uncertain.Error[x.power][x.row] = .9 * by
			if _, check := solver.CompareSystem(s, uncertain); check.Holds {
				t.Errorf("%s: an error of %v excuses that %s is off by %v", act.Name, .9*by, x.name, by)
			}
			// No error excuses more than 1e−6·(1 + E[g⁴]).
			uncertain.Error[x.power][x.row] = 1e9
			for off, holds := range map[float64]bool{.9: true, 1.1: false} {
				*x.at = want + off*1e-6*(1+m.Value[4][0])
				if _, check := solver.CompareSystem(s, uncertain); check.Holds != holds {
					t.Errorf("%s: %s off by %v holds %v", act.Name, x.name, *x.at-want, check.Holds)
				}
			}
			*x.at = math.NaN()
			if _, check := solver.CompareSystem(s, m); check.Holds {
				t.Errorf("%s is NaN and passes", x.name)
			}
			// Of two that are wrong the worse is named, wherever it stands.
			*x.at = want + 2*by
			for j, other := range numbersOf(&s) {
				if j == i {
					continue
				}
				was := *other.at
				*other.at += 1e-6 * natural(other, was)
				if reason, _ := solver.CompareSystem(s, m); !strings.Contains(reason, ": "+x.name+" is") {
					t.Errorf("%s is worse than %s: %s", x.name, other.name, reason)
				}
				*other.at = was
			}
			*x.at = want
		}
	}
}

// TestEveryMomentIsCompared: the same of an activation's own moments, in units of E[g⁴]^{p/4}
// or of themselves, beyond the errors that both sides state.
func TestEveryMomentIsCompared(t *testing.T) {
	for _, act := range []sdk.Func{sigmoid, thirty} {
		m := quadrature(t, act)
		if reason, check := solver.CompareMoments(m, m); !check.Holds || reason != "" || check.Value != 0 {
			t.Fatal(reason)
		}
		largest := 1e-6 * (1 + m.Value[4][0])
		for p := range m.Value {
			for q := range m.Value[p] {
				natural := max(math.Pow(m.Value[4][0], float64(p)/4), math.Abs(m.Value[p][q]))
				own, other := m, m
				compare := func(off float64) (string, solver.Check) {
					own.Value[p][q] = m.Value[p][q] + off
					return solver.CompareMoments(own, other)
				}
				reason, check := compare(1e-6 * natural)
				says := fmt.Sprintf("own moment E[g^%d·Z^%d] = %.10g, quadrature of its g gives %.10g", p, q, own.Value[p][q], m.Value[p][q])
				if check.Holds || !strings.Contains(reason, says) || !near(check.Value, 1e-6, 1e-11) {
					t.Errorf("%s: %v, %q, want %q", act.Name, check, reason, says)
				}
				own.Error[p][q], other.Error[p][q] = .5*largest, .25*largest
				slack := 1e-9 * natural
				if reason, check := compare(.74 * largest); !check.Holds {
					t.Errorf("%s: the errors do not excuse: %s", act.Name, reason)
				}
				if _, check := compare(.76*largest + slack); check.Holds {
					t.Errorf("%s: the errors excuse %v of E[g^%d·Z^%d]", act.Name, .76*largest+slack, p, q)
				}
				for _, side := range []*sdk.Moments{&own, &other} {
					own.Error, other.Error = m.Error, m.Error
					side.Error[p][q] = .99 * largest
					if reason, check := compare(0); !check.Holds {
						t.Errorf("%s: %s", act.Name, reason)
					}
					side.Error[p][q] = 1.01 * largest
					if reason, check := compare(0); check.Holds || !strings.Contains(reason, fmt.Sprintf("E[g^%d·Z^%d]", p, q)) || !strings.Contains(reason, "too uncertain") {
						t.Errorf("%s: an error of %v of E[g^%d·Z^%d]: %q", act.Name, 1.01*largest, p, q, reason)
					}
				}
			}
		}
	}
	// Of two that are wrong the worse is named, wherever it stands.
	m := quadrature(t, sigmoid)
	for _, worse := range []int{1, 4} {
		own := m
		own.Value[5-worse][0] += 1e-6 * math.Pow(m.Value[4][0], float64(5-worse)/4)
		own.Value[worse][0] += 2e-6 * math.Pow(m.Value[4][0], float64(worse)/4)
		if reason, _ := solver.CompareMoments(own, m); !strings.Contains(reason, fmt.Sprintf("E[g^%d·", worse)) {
			t.Errorf("E[g^%d] is worse: %s", worse, reason)
		}
	}
}
