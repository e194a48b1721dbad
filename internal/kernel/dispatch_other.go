//go:build !amd64

package kernel

// instructions is a set that kernels are written for: none but what Go has.
type instructions int

const portable instructions = 0

var assembly = best()

func best() instructions { return portable }

func (instructions) exp(_, _ []float64) int                          { return 0 }
func (instructions) log(_, _ []float64) int                          { return 0 }
func (instructions) mul(_, _, _ []float64) int                       { return 0 }
func (instructions) sub(_, _, _ []float64) int                       { return 0 }
func (instructions) mulSquare(_, _, _ []float64) int                 { return 0 }
func (instructions) variance(_, _ []float64) int                     { return 0 }
func (instructions) minusMul(_, _, _ []float64) int                  { return 0 }
func (instructions) minusMulMul(_, _, _, _ []float64) int            { return 0 }
func (instructions) gaussian(_, _, _, _ []float64, _, _ float64) int { return 0 }
func (instructions) addMul(_, _, _, _ []float64) int                 { return 0 }
func (instructions) bump(_, _ []float64, _ float64) int              { return 0 }
func (instructions) bend(_, _ []float64, _ float64) int              { return 0 }
func (instructions) soft(_, _ []float64, _ float64) int              { return 0 }
func (instructions) piecewise(_, _ []float64, _ *Piecewise) int      { return 0 }
func (instructions) hinge(_, _ []float64, _ *Hinge) int              { return 0 }
func (instructions) softmax(_, _, _ []float64, _, _ int, _ bool) int { return 0 }
func (instructions) logistic(_, _, _ []float64) int                  { return 0 }
func (instructions) sum(a []float64) float64                         { return sum(a) }
func (instructions) dot(a, b []float64) float64                      { return dot(a, b) }
func (instructions) cubes(a, b []float64) [4]float64                 { return cubesPortable(a, b) }
func (instructions) tile(dst []float64, stride int, a, b [][]float64, n, _, _ int, _ bool) {
	tilePortable(dst, stride, a, b, n)
}
func (instructions) gather(_, _ [][]float64, _ []int) int        { return 0 }
func (instructions) columns(_ []float64, _ []byte, _, _ int) int { return 0 }
func (instructions) linear(_, _, _, _ []float64, _, _ int) int   { return 0 }
