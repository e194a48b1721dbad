package sdk

import "github.com/gatedlearning/moe/internal/kernel"

// Exp writes e^z_i to dst_i, which may be z, to within 1 ulp: 0 below −745.2, +Inf above
// 709.8. It takes the values of a batch together, in a quarter of the time of [math.Exp] or
// less, and has the same bits on every processor and at any place in a batch: an activation
// made of it gives a fit the same bytes in the command and in a plugin's process. It panics
// where dst has fewer places than there are values.
func Exp(dst, z []float64) { kernel.Exp(dst, z) }
