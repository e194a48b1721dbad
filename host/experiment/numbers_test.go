package experiment

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Numbers of an outcome.

func worstOf(series ...string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return worst(o.allLasts(series)) }
}

func medianOf(series ...string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return median(o.allLasts(series)) }
}

func awayOf(series ...string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return float64(away(o.allLasts(series))) }
}

func recoveredOf(series string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return float64(below(o.lasts(series), recovered)) }
}

func (o *Outcome) allLasts(series []string) []float64 {
	var out []float64
	for _, s := range series {
		out = append(out, o.lasts(s)...)
	}
	return out
}

func medianAt(series string, x float64) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return median(o.at(series, x)) }
}

func awayAt(series string, x float64) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return float64(away(o.at(series, x))) }
}

func slopeOf(series string) func(*Outcome) float64 {
	return func(o *Outcome) float64 { return slope(o.geometric(series)) }
}

// cell reads a number of the table.
func cell(row, column int) func(*Outcome) float64 {
	return func(o *Outcome) float64 {
		v, err := strconv.ParseFloat(o.Rows[row][column], 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
}

func diverged(series ...string) func(*Outcome) float64 {
	return func(o *Outcome) float64 {
		n := 0
		for _, s := range series {
			for _, c := range o.Of(s) {
				if strings.HasPrefix(c.Status, "diverged") {
					n++
				}
			}
		}
		return float64(n)
	}
}

// Ways to spoil data.

// clone is a copy to be spoiled: figures share the data of their units.
func (o *Outcome) clone() *Outcome {
	own := func(curves []Curve) []Curve {
		curves = slices.Clone(curves)
		for i := range curves {
			curves[i].Y = slices.Clone(curves[i].Y)
		}
		return curves
	}
	c := *o
	c.Curves, c.aside, c.Rows = own(o.Curves), own(o.aside), slices.Clone(o.Rows)
	for i := range c.Rows {
		c.Rows[i] = slices.Clone(c.Rows[i])
	}
	return &c
}

// scale multiplies the ordinates of a series.
func scale(series string, by float64) func(*Outcome) {
	return func(o *Outcome) {
		for i := range o.Curves {
			if o.Curves[i].Series == series {
				for j := range o.Curves[i].Y {
					o.Curves[i].Y[j] *= by
				}
			}
		}
	}
}

// scaleBeside does so with a series that is not drawn.
func scaleBeside(series string, by float64) func(*Outcome) {
	return func(o *Outcome) {
		beside := Outcome{Curves: o.aside}
		scale(series, by)(&beside)
	}
}

// replace puts the curves of one series in the place of another's.
func replace(series, by string) func(*Outcome) {
	return func(o *Outcome) {
		o.Curves = slices.DeleteFunc(o.Curves, func(c Curve) bool { return c.Series == series })
		for i := range o.Curves {
			if o.Curves[i].Series == by {
				c := o.Curves[i]
				c.Series = series
				o.Curves = append(o.Curves, c)
			}
		}
	}
}

// reverse turns a figure's curves around: what was at the first x is at the last.
func reverse(o *Outcome) {
	for i := range o.Curves {
		slices.Reverse(o.Curves[i].Y)
	}
}
