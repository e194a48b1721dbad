package gru

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// shapes are the arrays of a layer, all ones, by name.
type shapes map[string][]int64

// with returns s with another shape for a name; nil takes the array away.
func (s shapes) with(name string, shape ...int64) shapes {
	out := maps.Clone(s)
	if out[name] = shape; shape == nil {
		delete(out, name)
	}
	return out
}

var torch = shapes{"weight_ih_l0": {6, 3}, "weight_hh_l0": {6, 2}, "bias_ih_l0": {6}, "bias_hh_l0": {6}}
var keras = shapes{"kernel": {3, 6}, "recurrent_kernel": {2, 6}, "bias": {2, 6}}

// safetensorsFile is a file of such arrays of 32-bit floats.
func safetensorsFile(s shapes) []byte {
	header, values := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		n, at := int64(1), len(values)
		for _, v := range s[name] {
			n *= v
		}
		for range n {
			values = binary.LittleEndian.AppendUint32(values, math.Float32bits(1))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": s[name], "data_offsets": []int{at, len(values)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return rawSafetensors(string(text), values)
}

func rawSafetensors(header string, values []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), values...)
}

// npzFile is an archive of one NPY file with that header and so many zeros.
func npzFile(name, header string, zeros int) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range []string{name, "weight_hh_l0.npy"} {
		f, err := w.Create(name)
		if err != nil {
			panic(err)
		}
		head := []byte("\x93NUMPY\x01\x00\x00\x00" + header + "\n")
		binary.LittleEndian.PutUint16(head[8:], uint16(len(header)+1))
		if _, err := f.Write(append(head, make([]byte, zeros)...)); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// TestFaults: every file that is no layer is refused in one line that names it, and at
// no more memory than the file has.
func TestFaults(t *testing.T) {
	before := ResetBefore
	for name, c := range map[string]struct {
		content []byte
		sel     Selection
		want    string
	}{
		"empty":           {nil, Selection{}, "neither a safetensors file nor an .npz archive"},
		"text":            {[]byte("a,b\n1,2\n"), Selection{}, "neither a safetensors file nor an .npz archive"},
		"header bomb":     {append(binary.LittleEndian.AppendUint64(nil, 1<<62), '{'), Selection{}, "a header of 4611686018427387904 bytes in a file of 9"},
		"header of 1 GiB": {append(binary.LittleEndian.AppendUint64(nil, 1<<30), '{'), Selection{}, "a header of 1073741824 bytes in a file of 9"},
		"header cut":      {safetensorsFile(torch)[:40], Selection{}, "a header of "},
		"header too long": {binary.LittleEndian.AppendUint64(nil, 3), Selection{}, "neither"},
		"one byte short":  {append(binary.LittleEndian.AppendUint64(nil, 3), "{}"...), Selection{}, "a header of 3 bytes in a file of 10"},
		"header alone":    {rawSafetensors("{}", nil), Selection{}, "among its arrays, of which there are none"},
		"seven others":    {safetensorsFile(shapes{"a": {1}, "b": {1}, "c": {1}, "d": {1}, "e": {1}, "f": {1}, "g": {1}}), Selection{}, "among a, b, c, d, e, f and 1 more"},
		"bytes too many":  {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},"weight_hh_l0":{"dtype":"F32","shape":[3,1],"data_offsets":[12,28]}}`, make([]byte, 28)), Selection{}, "weight_hh_l0 of shape 3×1 and type F32 has 16 bytes, want 12"},
		"no JSON":         {rawSafetensors("{]", nil), Selection{}, "the header is not the JSON expected"},
		"deep JSON":       {rawSafetensors("{\"a\":"+strings.Repeat("[", 1<<20), nil), Selection{}, "the header is not the JSON expected"},
		"array of words":  {rawSafetensors(`{"kernel":"x"}`, nil), Selection{}, `array "kernel" of the header is not the JSON expected`},
		"no layer":        {safetensorsFile(shapes{"weight": {2, 2}}), Selection{}, "no layer of gated recurrent units: want weight_ih_l0 and weight_hh_l0 (PyTorch) or kernel and recurrent_kernel (Keras) among weight"},
		"no arrays":       {safetensorsFile(shapes{}), Selection{}, "no layer of gated recurrent units"},
		"two layers":      {safetensorsFile(torch.with("weight_ih_l1", 6, 2).with("weight_hh_l1", 6, 2)), Selection{}, "2 layers: choose one with layer: weight_ih_l0, weight_ih_l1"},
		"other layer":     {safetensorsFile(torch), Selection{Layer: "weight_ih_l7"}, "no layer weight_ih_l7; there are weight_ih_l0"},
		"an LSTM":         {safetensorsFile(torch.with("weight_hh_l0", 8, 2)), Selection{}, "weight_hh_l0 has 4 blocks of 2: that is an LSTM"},
		"recurrent":       {safetensorsFile(torch.with("weight_hh_l0", 7, 2)), Selection{}, "weight_hh_l0 has 2 hidden units and 7 values for each"},
		"no units":        {safetensorsFile(torch.with("weight_hh_l0", 0, 0)), Selection{}, "weight_hh_l0 is 0×0, want any×any"},
		"input weights":   {safetensorsFile(torch.with("weight_ih_l0", 5, 3)), Selection{}, "weight_ih_l0 is 5×3, want 6×any"},
		"one dimension":   {safetensorsFile(torch.with("weight_ih_l0", 18)), Selection{}, "weight_ih_l0 is 18, want 6×any"},
		"bias":            {safetensorsFile(torch.with("bias_hh_l0", 3)), Selection{}, "bias_hh_l0 is 3, want 6"},
		"form of PyTorch": {safetensorsFile(torch), Selection{Form: &before}, "a layer of PyTorch has the form reset-after, not reset-before"},
		"form of Keras":   {safetensorsFile(keras), Selection{Form: &before}, "bias is 2×6, which is the form reset-after, not reset-before"},
		"no bias":         {safetensorsFile(keras.with("bias")), Selection{}, "the layer has no bias, whose shape says where the reset gate acts: say form: reset-after"},
		"bias of Keras":   {safetensorsFile(keras.with("bias", 3, 6)), Selection{}, "bias is 3×6, want 2×6 (reset-after) or 6 (reset-before)"},
		"kernel":          {safetensorsFile(keras.with("kernel", 3, 7)), Selection{}, "kernel is 3×7, want any×6"},
		"values cut":      {safetensorsFile(torch)[:len(safetensorsFile(torch))-4], Selection{}, "the file is cut short or damaged"},
		"type":            {bytes.Replace(safetensorsFile(torch), []byte(`"F32"`), []byte(`"I32"`), -1), Selection{}, `weight_hh_l0 has values of type "I32", want BF16, F16, F32, F64`},
		"not finite":      {bytes.Replace(safetensorsFile(torch), []byte{0, 0, 128, 63}, []byte{0, 0, 128, 127}, 1), Selection{}, "the reset gate's bias: value 1 is +Inf"},
		"offsets":         {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[6,3],"data_offsets":[0,0]},"weight_hh_l0":{"dtype":"F32","shape":[6,2],"data_offsets":[-8,40]}}`, nil), Selection{}, "weight_hh_l0 is at bytes -8 to 40 of 0"},
		"overflow":        {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[6,3],"data_offsets":[0,0]},"weight_hh_l0":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, nil), Selection{}, "weight_hh_l0 of shape 4294967296×4294967296 is too large"},
		"three offsets":   {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}`, make([]byte, 4)), Selection{}, `array "weight_ih_l0" has 3 data_offsets, want 2`},
		"one offset":      {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`, make([]byte, 4)), Selection{}, `array "weight_ih_l0" has 1 data_offsets, want 2`},
		"no offsets":      {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[1]}}`, make([]byte, 4)), Selection{}, `array "weight_ih_l0" has 0 data_offsets, want 2`},
		"null offset":     {rawSafetensors(`{"weight_ih_l0":{"dtype":"F32","shape":[1],"data_offsets":[null,4]}}`, make([]byte, 4)), Selection{}, `the header is not the JSON expected: null in a list`},
		"capitals":        {rawSafetensors(`{"weight_ih_l0":{"DType":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)), Selection{}, `member "DType": want "dtype"`},
		"overlapping":     {rawSafetensors(`{"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 12)), Selection{}, `arrays "a" and "b" overlap: bytes 4 to 8 belong to both`},
		"within another":  {rawSafetensors(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 16)), Selection{}, `arrays "a" and "c" overlap: bytes 4 to 8`},
		"the same bytes":  {rawSafetensors(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)), Selection{}, `arrays "a" and "b" overlap`},
		"doubled":         {rawSafetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, make([]byte, 8)), Selection{}, `member "a" stands twice`},
		"doubled dtype":   {rawSafetensors(`{"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 8)), Selection{}, `member "dtype" stands twice`},
		"doubled entry":   {npzFile("weight_hh_l0.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2), }", 96), Selection{}, `array "weight_hh_l0" is in the archive twice`},
		"archive cut":     {[]byte("PK\x03\x04 and no more"), Selection{}, "the archive cannot be read"},
		"array cut":       {npzFile("weight_ih_l0.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 2), }", 8), Selection{}, "weight_hh_l0: 0 values, want 12"},
		"declared array":  {npzFile("weight_ih_l0.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000, 1), }", 8), Selection{}, "weight_hh_l0: 0 values, want 100000000"},
		"strings":         {npzFile("weight_ih_l0.npy", "{'descr': '<U1', 'fortran_order': False, 'shape': (6, 2), }", 8), Selection{}, `weight_hh_l0: values of type "<U1"`},
		"column-major":    {npzFile("weight_ih_l0.npy", "{'descr': '<f8', 'fortran_order': True, 'shape': (6, 2), }", 96), Selection{}, "weight_hh_l0 is in column-major order"},
	} {
		path := filepath.Join(t.TempDir(), "layer")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		_, err := Read(path, c.sel)
		runtime.ReadMemStats(&is)
		fault := (*Error)(nil)
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), path+": "+c.want) && !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if got := is.TotalAlloc - was.TotalAlloc; got > 8<<20+10*uint64(len(c.content)) {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
	if _, err := Read(t.TempDir(), Selection{}); err == nil {
		t.Error("a directory is read")
	}
}

// TestSizes: the most values that an array may have, in any shape.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		want  int64 // −1: refused
	}{
		{nil, 1}, {[]int64{0, 5}, 0}, {[]int64{3, 4, 5}, 60}, {[]int64{1 << 27}, 1 << 27}, {[]int64{1 << 14, 1 << 13}, 1 << 27},
		{[]int64{1<<27 + 1}, -1}, {[]int64{1<<14 + 1, 1 << 13}, -1}, {[]int64{-1}, -1}, {[]int64{1 << 27, 1 << 40}, -1}, {[]int64{0, 1 << 40}, -1},
	} {
		if n, err := values("a", c.shape); (err != nil) != (c.want < 0) || err == nil && n != c.want {
			t.Errorf("%v: %d values, error %v, want %d", c.shape, n, err, c.want)
		}
	}
}

// TestList: up to six names, and how many more.
func TestList(t *testing.T) {
	names := strings.Fields("a b c d e f g h")
	for n, want := range map[int]string{0: "its arrays, of which there are none", 1: "a", 6: "a, b, c, d, e, f", 7: "a, b, c, d, e, f and 1 more", 8: "a, b, c, d, e, f and 2 more"} {
		if got := list(names[:n]); got != want {
			t.Errorf("%d names: %s, want %s", n, got, want)
		}
	}
}

// TestLongArrays: an array of more values than are read at a time, in a ZIP archive, and a
// vector that numpy calls column-major, as it may.
func TestLongArrays(t *testing.T) {
	const n = 1<<16 + 1<<15 + 7
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("long.npy")
	if err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf("{'descr': '<f8', 'fortran_order': True, 'shape': (%d,), }\n", n)
	content := append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
	for i := range n {
		content = binary.LittleEndian.AppendUint64(content, math.Float64bits(float64(i)))
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := openNPZ(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	a, err := in.read("long")
	if err != nil {
		t.Fatal(err)
	}
	if len(a.values) != n {
		t.Fatalf("%d values, want %d", len(a.values), n)
	}
	for i, v := range a.values {
		if v != float64(i) {
			t.Fatalf("value %d is %v", i, v)
		}
	}
}

// TestHalf: the numbers that a reference table of binary16 and bfloat16 has.
func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0400: 6.103515625e-05, 0x0001: 5.960464477539063e-08,
		0x0000: 0, 0x3555: 0.333251953125, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		if got := half(bits); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(half(0x7e00)) {
		t.Error("0x7e00 is a number")
	}
	bf16 := numberTypes["BF16"].value
	for bits, want := range map[uint16]float64{0x3f80: 1, 0xc049: -3.140625} {
		if got := bf16(binary.LittleEndian.AppendUint16(nil, bits)); got != want {
			t.Errorf("bfloat16 %#x is %v, want %v", bits, got, want)
		}
	}
}

// TestLayersOfAFile: of several layers the one named is read, in either library, with
// and without biases.
func TestLayersOfAFile(t *testing.T) {
	two := torch.with("rnn.weight_ih_l1_reverse", 9, 4).with("rnn.weight_hh_l1_reverse", 9, 3)
	after := ResetAfter
	for _, c := range []struct {
		arrays         shapes
		sel            Selection
		inputs, hidden int
	}{
		{two, Selection{Layer: "rnn.weight_ih_l1_reverse"}, 4, 3},
		{two, Selection{Layer: "weight_ih_l0"}, 3, 2},
		{torch.with("bias_ih_l0").with("bias_hh_l0"), Selection{}, 3, 2},
		{shapes{"cell.weight_ih": {6, 3}, "cell.weight_hh": {6, 2}}, Selection{}, 3, 2},
		{shapes{"gru/kernel:0": {3, 6}, "gru/recurrent_kernel:0": {2, 6}, "gru/bias:0": {6}, "dense/kernel:0": {2, 1}}, Selection{}, 3, 2},
		{keras.with("bias"), Selection{Form: &after}, 3, 2},
	} {
		path := filepath.Join(t.TempDir(), "layer")
		if err := os.WriteFile(path, safetensorsFile(c.arrays), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Read(path, c.sel)
		if err != nil {
			t.Errorf("%v: %v", c.arrays, err)
		} else if l.Inputs() != c.inputs || l.Hidden() != c.hidden {
			t.Errorf("%v: %d inputs, %d units", c.arrays, l.Inputs(), l.Hidden())
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(safetensorsFile(torch))
	f.Add(safetensorsFile(keras))
	for _, name := range []string{"torch.npz", "keras.npz"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	path := filepath.Join(f.TempDir(), "layer")
	f.Fuzz(func(t *testing.T, content []byte) {
		path := path + fmt.Sprint(os.Getpid())
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Read(path, Selection{})
		if fault := (*Error)(nil); err != nil && !errors.As(err, &fault) {
			t.Fatalf("%v is no *Error", err)
		}
		if err == nil && l.Hidden() < 1 {
			t.Fatal("a layer without units")
		}
	})
}

// readBack reads a fuzzed file, all of whose faults must be an *Error.
func readBack(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Read(path, Selection{})
	if fault := (*Error)(nil); err != nil && !errors.As(err, &fault) {
		t.Fatalf("%v is no *Error", err)
	}
	if err == nil && (l.Hidden() < 1 || l.check() != nil) {
		t.Fatal("a layer without units, or that is none")
	}
}

// FuzzSafetensors looks behind the length of the header, which FuzzRead seldom meets.
func FuzzSafetensors(f *testing.F) {
	for _, arrays := range []shapes{torch, keras} {
		content := safetensorsFile(arrays)
		n := 8 + int(binary.LittleEndian.Uint64(content))
		f.Add(string(content[8:n]), content[n:])
	}
	f.Add(`{"kernel":{"dtype":"F16","shape":[1,3],"data_offsets":[0,6]},"recurrent_kernel":{"dtype":"BF16","shape":[1,3],"data_offsets":[6,12]},"bias":{"dtype":"F64","shape":[3],"data_offsets":[12,36]},"__metadata__":{"format":"pt"}}`, make([]byte, 36))
	path := filepath.Join(f.TempDir(), "layer")
	f.Fuzz(func(t *testing.T, header string, values []byte) {
		readBack(t, path, rawSafetensors(header, values))
	})
}

// FuzzNPZ looks behind the archive and its checksums, which FuzzRead seldom meets: the
// headers and values of the arrays of a layer, and a name that one of them has.
func FuzzNPZ(f *testing.F) {
	f.Add("bias_ih_l0", "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }", make([]byte, 48), make([]byte, 12))
	f.Add("weight_hh_l0", "{'descr': '>i2', 'fortran_order': True, 'shape': (3,), }", "{'descr': '|b1', 'fortran_order': False, 'shape': (4294967296, 1), }", make([]byte, 6), make([]byte, 3))
	path := filepath.Join(f.TempDir(), "layer")
	f.Fuzz(func(t *testing.T, name, inputs, recurrent string, a, b []byte) {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for _, member := range []struct {
			name, header string
			values       []byte
		}{{"weight_ih_l0", inputs, a}, {"weight_hh_l0", recurrent, b}, {name, recurrent, b}} {
			to, err := w.Create(member.name + ".npy")
			if err != nil || len(member.header) > 1<<15 {
				return
			}
			head := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(member.header)))
			if _, err := to.Write(append(append(head, member.header...), member.values...)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		readBack(t, path, out.Bytes())
	})
}
