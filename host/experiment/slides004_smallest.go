package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/diverse"
)

// smallestDesign says how n and d go with m.
type smallestDesign struct {
	name     string
	supposed bool // as the slides suppose
	d, n     func(m int) int
}

// overGamma is ⌈1/γ_m⌉ in ℝ^d.
func overGamma(d, m int) int { return int(math.Ceil(1 / diverse.Gamma(d, m)[m-1])) }

const smallestDim, smallestRows = 5, 100

var smallestDesigns = []smallestDesign{
	{"n = 1/γ_m, d = m", true, func(m int) int { return m }, func(m int) int { return overGamma(m, m) }},
	{"n = 1/γ_m, d = 5", false, func(int) int { return smallestDim },
		func(m int) int { return overGamma(smallestDim, m) }},
	{"n = 4m, d = 5", false, func(int) int { return smallestDim }, func(m int) int { return 4 * m }},
	{"n = 100, d = m", false, func(m int) int { return m }, func(int) int { return smallestRows }},
}

// smallestSizes are the last m of levels of the kernel in ℝ⁵, where 1/γ_m is small for m.
func smallestSizes(z size) []int {
	if z.quick {
		return []int{20, 75}
	}
	return []int{20, 75, 215, 500}
}

// smallestFigure is the simplified result on the least singular value.
func smallestFigure(z size) *Figure {
	draws := z.of(4, 8)
	f := &Figure{
		ID: "004-smallest", Title: "The least singular value of D against m", Source: "004, A simplified result",
		Claim: "For n and d of order 1/γ_m and more, and random weights, s_m(D)² is of order m at least, with high " +
			"probability.",
		Settings: fmt.Sprintf("m points on the sphere of ℝ^d, w ~ N(0, I), %d draws for each m; s_m(D)² = n·λ_m(G_n), "+
			"over m in the picture, so that a line that falls is below the order of m. As the slides suppose it: n = "+
			"1/γ_m, and d = m, which is 1/γ_m up to a constant (1/γ_m is about 4m there; where m is above d + 1 no d "+
			"is as large). Beside it one of the two is smaller: d = 5 held, with n = 1/γ_m or 4m, and n = 100 held. "+
			"The m are the last of levels of the kernel in ℝ⁵, where 1/γ_m is least for m. The claim holds if the "+
			"power of m of the median s_m(D)² is at least 0.9, and s_m(D)²/m at least half of its least value at m = "+
			"20 in 95 %% of the draws with larger m.", draws),
		X: Axis{Label: "m", Log: true}, Y: Axis{Label: "s_m(D)²/m", Log: true}, judge: judgeSmallest,
		Columns: []string{"n and d", "m", "n", "d", "s_m(D)²/m, median", "least"},
		table:   smallestTable(smallestSizes(z)),
	}
	for _, c := range smallestDesigns {
		for _, m := range smallestSizes(z) {
			for run := range draws {
				f.units = append(f.units, c.unit(m, run))
			}
		}
	}
	return f
}

func (c smallestDesign) unit(m, run int) unit {
	return unit{key: fmt.Sprintf("least singular value, %s, m %d run %d", c.name, m, run),
		run: func(_ context.Context, seed uint64) (*output, error) {
			n := c.n(m)
			s := diverse.NewDraw(seed, n, m, c.d(m))
			least, err := diverse.Least(diverse.GramOf(s.W, s.X))
			if err != nil {
				return nil, err
			}
			out := new(output)
			out.point("", c.name, run, float64(m), float64(n)*max(least, 0)/float64(m))
			return out, nil
		}}
}

func smallestTable(sizes []int) func(*Outcome) [][]string {
	return func(o *Outcome) (rows [][]string) {
		for _, c := range smallestDesigns {
			for _, m := range sizes {
				v := o.at(c.name, float64(m))
				rows = append(rows, []string{c.name, fmt.Sprint(m), fmt.Sprint(c.n(m)), fmt.Sprint(c.d(m)),
					fmt.Sprintf("%.3g", median(v)), fmt.Sprintf("%.3g", slices.Min(v))})
			}
		}
		return rows
	}
}

func judgeSmallest(o *Outcome) Verdict {
	var measured, beside []string
	v := Verdict{Agrees: true}
	for _, c := range smallestDesigns {
		x, y := o.medians(c.name)
		for i := range y {
			y[i] *= x[i]
		}
		power := slope(x, y)
		measured = append(measured, fmt.Sprintf("m^%.2f with %s", power, c.name))
		if !c.supposed {
			if power < 0.9 {
				beside = append(beside, c.name)
			}
			continue
		}
		constant, holds, all := slices.Min(o.at(c.name, x[0]))/2, 0, 0
		for _, m := range x[1:] {
			values := o.at(c.name, m)
			all += len(values)
			for _, s := range values {
				if s >= constant {
					holds++
				}
			}
		}
		measured[len(measured)-1] += fmt.Sprintf(", where it is at least %.2g·m in %d of %d draws", constant, holds,
			all)
		if power < 0.9 || float64(holds) < often*float64(all) {
			v.Agrees, v.Because = false, fmt.Sprintf("with %s it goes as m^%.2f, and is at least %.2g·m in %d of %d "+
				"draws", c.name, power, constant, holds, all)
		}
	}
	v.Measured = "median s_m(D)² goes as " + strings.Join(measured, "; ")
	if v.Agrees && len(beside) > 0 {
		v.Because = "not so with " + strings.Join(beside, " nor with ")
	}
	return v
}
