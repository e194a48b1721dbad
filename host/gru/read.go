package gru

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/setting"
)

// Selection says which layer of a file is read, and what the file does not say.
type Selection struct {
	Layer string // its input weights' name, or "" where the file has one layer
	Form  *Form  // nil: as the file says
}

// Read reads a layer from a safetensors file or an .npz archive of numpy, told apart
// by content. Arrays are named and shaped as in PyTorch,
//
//	weight_ih_l0 3H×I, weight_hh_l0 3H×H, bias_ih_l0 and bias_hh_l0 3H, gates in the order r, z, n
//
// or as in Keras,
//
//	kernel I×3H, recurrent_kernel H×3H, bias 2×3H (reset-after) or 3H (reset-before), order z, r, h
//
// whatever stands before those names. Faults of the content are an [*Error], a file
// that cannot be opened or read an *fs.PathError.
func Read(path string, sel Selection) (*Layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := read(f, sel)
	if err != nil {
		return nil, &Error{path, err}
	}
	return l, nil
}

func read(f *os.File, sel Selection) (*Layer, error) {
	in, err := open(f)
	if err != nil {
		return nil, err
	}
	names, err := choose(in.names(), sel.Layer)
	if err != nil {
		return nil, err
	}
	a := &arrays{in: in}
	l := names.layer(a, sel.Form)
	if a.err != nil {
		return nil, a.err
	}
	l.Name = names.weights
	return l, l.check()
}

// arrayNames are those of a layer's arrays in one library, "" for what it has not.
type arrayNames struct {
	keras               bool
	weights, recurrent  string
	bias, recurrentBias string
}

var (
	torchWeights = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(.*)weight_ih((?:_l\d+(?:_reverse)?)?)$`)
	})
	kerasKernel = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^((?:.*\W)?)kernel((?::0)?)$`) })
)

// choose finds the layers among the arrays of a file and returns the one meant.
func choose(names []string, layer string) (arrayNames, error) {
	found := map[string]arrayNames{}
	var layers []string
	for _, name := range names {
		var a arrayNames
		if m := torchWeights().FindStringSubmatch(name); m != nil {
			a = arrayNames{false, name, m[1] + "weight_hh" + m[2], m[1] + "bias_ih" + m[2], m[1] + "bias_hh" + m[2]}
		} else if m := kerasKernel().FindStringSubmatch(name); m != nil {
			a = arrayNames{true, name, m[1] + "recurrent_kernel" + m[2], m[1] + "bias" + m[2], ""}
		}
		if a.weights == "" || !slices.Contains(names, a.recurrent) {
			continue
		}
		if !slices.Contains(names, a.bias) {
			a.bias = ""
		}
		if !slices.Contains(names, a.recurrentBias) {
			a.recurrentBias = ""
		}
		found[name] = a
		layers = append(layers, name)
	}
	switch a, ok := found[layer]; {
	case ok:
		return a, nil
	case len(layers) == 0:
		return a, fmt.Errorf("no layer of gated recurrent units: want weight_ih_l0 and weight_hh_l0 (PyTorch) or "+
			"kernel and recurrent_kernel (Keras) among %s", list(names))
	case layer != "":
		return a, fmt.Errorf("no layer %s; there are %s", layer, list(layers))
	case len(layers) > 1:
		return a, setting.Errorf("%d layers: choose one with %s: %s", len(layers), setting.Key("layer"), list(layers))
	}
	return found[layers[0]], nil
}

// list names the first few.
func list(names []string) string {
	const most = 6
	if len(names) == 0 {
		return "its arrays, of which there are none"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// arrays reads arrays of known shapes. Its first error ends the reading.
type arrays struct {
	in  tensors
	err error
}

// take returns the values of an array of the shape wanted; where a size is −1 any will
// do. One with the name "" is zeros.
func (a *arrays) take(name string, want ...int64) *tensor {
	if a.err != nil {
		return nil
	}
	if name == "" {
		n := int64(1)
		for _, v := range want {
			n *= v
		}
		return &tensor{want, make([]float64, n)}
	}
	var t *tensor
	if t, a.err = a.in.read(name); a.err != nil {
		return nil
	}
	same := len(t.shape) == len(want)
	for i, v := range want {
		same = same && (v < 0 && t.shape[i] > 0 || v == t.shape[i])
	}
	if !same {
		text := strings.ReplaceAll(shapeText(want), "-1", "any")
		a.err = fmt.Errorf("%s is %s, want %s", name, shapeText(t.shape), text)
		return nil
	}
	return t
}

// layer reads the layer of these names.
func (n arrayNames) layer(a *arrays, form *Form) *Layer {
	if n.keras {
		return n.fromKeras(a, form)
	}
	return n.fromTorch(a, form)
}

func (n arrayNames) fromTorch(a *arrays, form *Form) *Layer {
	recurrent := a.take(n.recurrent, -1, -1)
	if a.err != nil {
		return nil
	}
	rows, h := recurrent.shape[0], recurrent.shape[1]
	if a.err = threeGates(n.recurrent, rows, h); a.err != nil {
		return nil
	}
	weights, b, c := a.take(n.weights, rows, -1), a.take(n.bias, rows), a.take(n.recurrentBias, rows)
	if a.err == nil && form != nil && *form != ResetAfter {
		a.err = fmt.Errorf("a layer of PyTorch has the form %s, not %s", ResetAfter, *form)
	}
	if a.err != nil {
		return nil
	}
	block := func(g int64) Affine {
		return Affine{rowsOf(weights, g*h, h), rowsOf(recurrent, g*h, h), b.values[g*h : (g+1)*h]}
	}
	l := &Layer{Form: ResetAfter, Reset: block(0), Update: block(1), Candidate: block(2), RecurrentBias: c.values[2*h:]}
	floats.Add(l.Reset.B, c.values[:h])
	floats.Add(l.Update.B, c.values[h:2*h])
	return l
}

func (n arrayNames) fromKeras(a *arrays, form *Form) *Layer {
	recurrent := a.take(n.recurrent, -1, -1)
	if a.err != nil {
		return nil
	}
	h, cols := recurrent.shape[0], recurrent.shape[1]
	if a.err = threeGates(n.recurrent, cols, h); a.err != nil {
		return nil
	}
	weights := a.take(n.weights, -1, cols)
	b, c, is := n.kerasBias(a, cols, form)
	if a.err != nil {
		return nil
	}
	block := func(g int64) Affine {
		return Affine{columnsOf(weights, g*h, h), columnsOf(recurrent, g*h, h), b[g*h : (g+1)*h]}
	}
	l := &Layer{Form: is, Update: block(0), Reset: block(1), Candidate: block(2), RecurrentBias: c[2*h:]}
	floats.Add(l.Update.B, c[:h])
	floats.Add(l.Reset.B, c[h:2*h])
	return l
}

// kerasBias returns the biases of the inputs and of the recurrence, and the form that
// their shape says: two rows are reset-after, one is reset-before.
func (n arrayNames) kerasBias(a *arrays, cols int64, form *Form) (b, c []float64, is Form) {
	zeros := make([]float64, cols)
	if n.bias == "" {
		if form == nil {
			a.err = setting.Errorf("the layer has no bias, whose shape says where the reset gate acts: say %s (Keras' "+
				"default) or reset-before", setting.To("form", "reset-after"))
			return nil, nil, 0
		}
		return zeros, make([]float64, cols), *form
	}
	t, err := a.in.read(n.bias)
	if a.err != nil || err != nil {
		if a.err == nil {
			a.err = err
		}
		return nil, nil, 0
	}
	switch {
	case len(t.shape) == 1 && t.shape[0] == cols:
		b, c, is = t.values, zeros, ResetBefore
	case len(t.shape) == 2 && t.shape[0] == 2 && t.shape[1] == cols:
		b, c, is = t.values[:cols], t.values[cols:], ResetAfter
	default:
		a.err = fmt.Errorf("%s is %s, want 2×%d (reset-after) or %d (reset-before)", n.bias, shapeText(t.shape), cols,
			cols)
		return nil, nil, 0
	}
	if form != nil && *form != is {
		a.err = fmt.Errorf("%s is %s, which is the form %s, not %s", n.bias, shapeText(t.shape), is, *form)
	}
	return b, c, is
}

// threeGates refuses recurrent weights that are not those of three gates.
func threeGates(name string, n, hidden int64) error {
	switch {
	case n == 3*hidden:
		return nil
	case n == 4*hidden:
		return fmt.Errorf("%s has 4 blocks of %d: that is an LSTM, want the 3 of gated recurrent units", name, hidden)
	}
	return fmt.Errorf("%s has %d hidden units and %d values for each, want 3 times as many values as units", name,
		hidden, n)
}

func rowsOf(t *tensor, from, n int64) *mat.Dense {
	cols := t.shape[1]
	return mat.NewDense(int(n), int(cols), t.values[from*cols:(from+n)*cols])
}

// columnsOf returns n columns of t as the rows of a matrix.
func columnsOf(t *tensor, from, n int64) *mat.Dense {
	rows, cols := int(t.shape[0]), int(t.shape[1])
	all := mat.NewDense(rows, cols, t.values)
	return mat.DenseCopyOf(all.Slice(0, rows, int(from), int(from+n)).T())
}
