package gru

import (
	"archive/zip"
	"io"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/npy"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Library is whose names and shapes a layer's arrays have in a file.
type Library string

// The libraries.
const (
	Torch Library = "torch"
	Keras Library = "keras"
)

// Libraries lists the libraries.
func Libraries() []Library { return []Library{Torch, Keras} }

// Write writes a layer of the form reset-after as an .npz archive that [Read] and
// numpy.load read, in float64, with the arrays of PyTorch or of Keras as Read has them.
// The gates' biases stand with the inputs' (bias_ih_l0, the first row of bias), those
// of the recurrence are 0 but for c. Equal layers are equal bytes. It panics for the
// form reset-before.
func Write(w io.Writer, l *Layer, library Library) error {
	if l.Form != ResetAfter {
		panic("gru: a layer of the form " + l.Form.String() + " is not written")
	}
	out := zip.NewWriter(w)
	for _, a := range arraysOf(l, library) {
		member, err := out.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		content := numeric.AppendFloats(npy.HeaderOf(a.shape...), a.values)
		if _, err := member.Write(content); err != nil {
			return err
		}
	}
	return out.Close()
}

// namedArray is an array of a file, row-major.
type namedArray struct {
	name   string
	shape  []int
	values []float64
}

// arraysOf are a layer's arrays, as a library names and shapes them.
func arraysOf(l *Layer, library Library) []namedArray {
	i, h := l.Inputs(), l.Hidden()
	order := []Affine{l.Reset, l.Update, l.Candidate}
	if library == Keras {
		order = []Affine{l.Update, l.Reset, l.Candidate}
	}
	var input, recurrent mat.Dense // 3H×I, 3H×H
	var bias []float64
	for _, a := range order {
		stack(&input, a.W)
		stack(&recurrent, a.U)
		bias = append(bias, a.B...)
	}
	other := slices.Concat(make([]float64, 2*h), l.RecurrentBias)
	if library == Keras {
		return []namedArray{
			{"kernel", []int{i, 3 * h}, mat.DenseCopyOf(input.T()).RawMatrix().Data},
			{"recurrent_kernel", []int{h, 3 * h}, mat.DenseCopyOf(recurrent.T()).RawMatrix().Data},
			{"bias", []int{2, 3 * h}, append(bias, other...)},
		}
	}
	return []namedArray{
		{"weight_ih_l0", []int{3 * h, i}, input.RawMatrix().Data},
		{"weight_hh_l0", []int{3 * h, h}, recurrent.RawMatrix().Data},
		{"bias_ih_l0", []int{3 * h}, bias},
		{"bias_hh_l0", []int{3 * h}, other},
	}
}

// stack puts the rows of a below those of dst.
func stack(dst *mat.Dense, a mat.Matrix) {
	if dst.IsEmpty() {
		dst.CloneFrom(a)
		return
	}
	var both mat.Dense
	both.Stack(dst, a)
	*dst = both
}
