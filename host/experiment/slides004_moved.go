package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/diverse"
	"github.com/gatedlearning/moe/host/model"
)

const (
	movedPoints = 20
	movedDim    = 10
	movedPasses = 3 // of the adversary

	movedRandomly = "at random, λ₀ of nG_n"
	movedPrinted  = "against it, λ₀ of nG_n"
	movedByOne    = "against it, λ₀ of G_n"
)

// movedSizes are the n of the figure.
func movedSizes(z size) []int {
	if z.quick {
		return []int{100, 3000}
	}
	return []int{100, 300, 1000, 3000, 10000}
}

// movedWeights is the first step of the self-consistent argument.
func movedWeights(z size) *Figure {
	ns, draws := movedSizes(z), z.of(2, 10)
	f := &Figure{
		ID: "004-moved", Title: "The least eigenvalue of nG_n when weights are moved",
		Source: "004, Self-consistent argument",
		Claim:  "Where every weight is moved by at most cλ₀/m², λ_min(nG_n) stays above λ₀/2 with high probability.",
		Settings: fmt.Sprintf("m = %d points on the sphere of ℝ¹⁰, w ~ N(0, I), c = 1; %d draws for each n. λ₀ is "+
			"λ_min(nG_n) of the weights as drawn, as printed; and, beside, λ_min(G_n). At random: every weight by all "+
			"of the distance, in a random direction. Against it: in each of %d passes every weight goes, from where "+
			"it was drawn, to that of some places within the distance where it adds least to the quadratic form of "+
			"nG_n at the least eigenvector; the places are those just beyond the hyperplane of one point, and 20 at "+
			"the whole distance in random directions. The lowest pass counts: a stronger adversary may do more. High "+
			"is 95 %% of the draws, at every n.", movedPoints, draws, movedPasses),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "λ_min(nG_n) over that at the start", Min: 0, Max: 1.2},
		Level: 0.5,
		Columns: []string{"n", "cλ₀/m² as printed, median", "at random: least", "against it: median", "least",
			"with λ₀ of G_n, against it: least"},
		measure: "ratio", judge: judgeMoved, table: movedTable,
	}
	for _, n := range ns {
		for run := range draws {
			f.units = append(f.units, movedUnit(n, run))
		}
	}
	return f
}

func movedUnit(n, run int) unit {
	return unit{key: fmt.Sprintf("moved weights m %d d %d n %d run %d", movedPoints, movedDim, n, run),
		run: func(_ context.Context, seed uint64) (*output, error) {
			s := diverse.NewDraw(seed, n, movedPoints, movedDim)
			start, _, err := leastPair(s.W, s.X)
			if err != nil {
				return nil, err
			}
			far, out := float64(n)*start/(movedPoints*movedPoints), new(output)
			moved := mat.DenseCopyOf(s.W)
			for k := range n {
				floats.AddScaled(moved.RawRowView(k), far, model.RandomDirections(s.Rng, 1, movedDim))
			}
			random, _, err := leastPair(moved, s.X)
			if err != nil {
				return nil, err
			}
			printed, err := against(s, far)
			if err != nil {
				return nil, err
			}
			one, err := against(s, far/float64(n))
			if err != nil {
				return nil, err
			}
			out.point("ratio", movedRandomly, run, float64(n), random/start)
			out.point("ratio", movedPrinted, run, float64(n), printed/start)
			out.point("ratio", movedByOne, run, float64(n), one/start)
			out.point("distance", "distance", run, float64(n), far)
			return out, nil
		}}
}

// leastPair is the least eigenvalue of G_n with its vector.
func leastPair(w, x *mat.Dense) (float64, []float64, error) {
	values, vectors, ok := eigenpairs(diverse.GramOf(w, x))
	if !ok {
		return 0, nil, errors.New("a Gram matrix has no eigenvalues")
	}
	return max(values[0], 0), vectors[0], nil
}

// against is the lowest λ_min(G_n) of the passes of an adversary that moves every weight by at most far.
func against(s *diverse.Draw, far float64) (float64, error) {
	at := mat.DenseCopyOf(s.W)
	lowest, u, err := leastPair(at, s.X)
	n, _ := at.Dims()
	for pass := 0; pass < movedPasses && err == nil; pass++ {
		for k := range n {
			at.SetRow(k, leastPlace(s.W.RawRowView(k), s.X, u, far, s.Rng))
		}
		var least float64
		if least, u, err = leastPair(at, s.X); least < lowest {
			lowest = least
		}
	}
	return lowest, err
}

// leastPlace is where within far of w a unit adds least to the quadratic form at u, ‖Σ_l u_l·1[⟨w,x_l⟩ > 0]·x_l‖².
func leastPlace(w []float64, x *mat.Dense, u []float64, far float64, rng *rand.Rand) []float64 {
	m, d := x.Dims()
	sum := make([]float64, d)
	form := func(w []float64) float64 {
		clear(sum)
		for l := range m {
			if row := x.RawRowView(l); floats.Dot(w, row) > 0 {
				floats.AddScaled(sum, u[l], row)
			}
		}
		return floats.Dot(sum, sum)
	}
	best, place := form(w), slices.Clone(w)
	to := make([]float64, d)
	try := func(by float64, direction []float64) {
		floats.AddScaledTo(to, w, by, direction)
		if v := form(to); v < best {
			best = v
			copy(place, to)
		}
	}
	for l := range m {
		row := x.RawRowView(l)
		if by := 1.0001 * floats.Dot(w, row); math.Abs(by) <= far {
			try(-by, row)
		}
	}
	for range 20 {
		try(far, model.RandomDirections(rng, 1, d))
	}
	return place
}

func movedTable(o *Outcome) (rows [][]string) {
	ns, _ := o.medians(movedPrinted)
	for _, n := range ns {
		at := func(series string) []float64 { return o.at(series, n) }
		rows = append(rows, []string{fmt.Sprint(n), g2(median(o.besideAt("distance", n))),
			g2(slices.Min(at(movedRandomly))), g2(median(at(movedPrinted))), g2(slices.Min(at(movedPrinted))),
			g2(slices.Min(at(movedByOne)))})
	}
	return rows
}

func judgeMoved(o *Outcome) Verdict {
	var measured, fails []string
	for _, series := range []string{movedRandomly, movedPrinted, movedByOne} {
		all, held, from := 0, 0, 0.0
		ns, _ := o.medians(series)
		for _, n := range ns {
			ratios := o.at(series, n)
			above := len(ratios) - below(ratios, 0.5)
			all, held = all+len(ratios), held+above
			if float64(above) < often*float64(len(ratios)) && from == 0 {
				from = n
			}
		}
		measured = append(measured, fmt.Sprintf("%s: above λ₀/2 in %d of %d draws, least %s", series, held, all,
			g2(slices.Min(o.values(series)))))
		if from > 0 && series != movedByOne {
			fails = append(fails, fmt.Sprintf("moved %s, it fails from n = %g on", series, from))
		}
	}
	v := Verdict{Measured: strings.Join(measured, "; "), Agrees: len(fails) == 0}
	if !v.Agrees {
		v.Because = strings.Join(fails, "; ") + ": λ₀ of nG_n grows as n, and so does the distance, of any c"
	}
	return v
}
