package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The versions of what is written: of the format, and of the sets of operators. ONNX Runtime has all of these operators
// in float64; of Atan it has none.
const (
	onnxFormat    = 8
	onnxOperators = 15
	onnxLearning  = 2 // of ai.onnx.ml, whose LabelEncoder finds the place of a word
	learning      = "ai.onnx.ml"
)

// onnxNames are the operators.
var onnxNames = map[op]string{
	opNeg: "Neg", opAdd: "Add", opSub: "Sub", opMul: "Mul", opDiv: "Div", opPow: "Pow", opMin: "Min", opMax: "Max",
	opWhere: "Where", opExp: "Exp", opLog: "Log", opSqrt: "Sqrt", opAbs: "Abs", opTanh: "Tanh", opSign: "Sign",
	opLess: "Less", opLessEqual: "LessOrEqual", opEqual: "Equal", opAnd: "And", opOr: "Or", opNot: "Not",
}

// The types of a tensor's elements, as onnx.proto numbers them (TensorProto.DataType).
const (
	onnxInt64  = 7
	onnxString = 8
	onnxBool   = 9
	onnxDouble = 11
)

// message is one of protocol buffers, written field by field.
type message []byte

func (m message) number(field protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(v))
}

func (m message) text(field protowire.Number, v string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), v)
}

func (m message) bytes(field protowire.Number, v []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

// onnxGraph is a GraphProto that grows: of field 1 its nodes, of 5 the constants.
type onnxGraph struct {
	nodes, constants message
	prefix           string // with which no name of a column begins
	count            int
	known            map[string]string // constants by what they are
}

// fresh is a name that there is not yet.
func (g *onnxGraph) fresh() string {
	g.count++
	return fmt.Sprint(g.prefix, g.count)
}

// attribute is an AttributeProto: name 1, i 3, ints 8, strings 9, type 20.
func attribute(name string, kind int64, values message) message {
	return append(message(nil).text(1, name), values.number(20, kind)...)
}

// The kinds of an attribute (AttributeProto.AttributeType).
const (
	attributeInt     = 2
	attributeInts    = 7
	attributeStrings = 8
)

// node adds a NodeProto — input 1, output 2, op_type 4, attribute 5, domain 7 — and returns its output.
func (g *onnxGraph) node(domain, name string, inputs []string, attributes ...message) string {
	out := g.fresh()
	g.nodeTo(out, domain, name, inputs, attributes...)
	return out
}

func (g *onnxGraph) nodeTo(out, domain, name string, inputs []string, attributes ...message) {
	var n message
	for _, in := range inputs {
		n = n.text(1, in)
	}
	n = n.text(2, out).text(4, name)
	for _, a := range attributes {
		n = n.bytes(5, a)
	}
	if domain != "" {
		n = n.text(7, domain)
	}
	g.nodes = g.nodes.bytes(1, n)
}

// constant is the name of a TensorProto: dims 1, data_type 2, name 8, raw_data 9, little-endian.
func (g *onnxGraph) constant(kind int64, dims []int64, raw []byte) string {
	key := fmt.Sprint(kind, dims, raw)
	if name, ok := g.known[key]; ok {
		return name
	}
	name := g.fresh()
	g.known[key] = name
	var t message
	for _, d := range dims {
		t = t.number(1, d)
	}
	g.constants = g.constants.bytes(5, t.number(2, kind).text(8, name).bytes(9, raw))
	return name
}

func (g *onnxGraph) doubles(dims []int64, values ...float64) string {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return g.constant(onnxDouble, dims, raw)
}

func (g *onnxGraph) whole(v int64) string {
	return g.constant(onnxInt64, []int64{1}, binary.LittleEndian.AppendUint64(nil, uint64(v)))
}

// info is a ValueInfoProto — name 1, type 2 — of a tensor of so many rows and, where it is not 0, columns.
func info(name string, kind, columns int64) message {
	shape := message(nil).bytes(1, message(nil).text(2, "rows")) // dim_param
	if columns > 0 {
		shape = shape.bytes(1, message(nil).number(1, columns)) // dim_value
	}
	tensor := message(nil).number(1, kind).bytes(2, shape)
	return message(nil).text(1, name).bytes(2, message(nil).bytes(1, tensor))
}

// onnxOf is a ModelProto: ir_version 1, producer_name 2, doc_string 6, graph 7, opset_import 8. The graph — node 1,
// name 2, initializer 5, input 11, output 12 — has an input of rows for every column, and of the target where there is
// a posterior; its outputs are mean (rows), gate and posterior (rows × k).
func onnxOf(p *program, title string) ([]byte, error) {
	if err := noMean(p, ONNX); err != nil {
		return nil, err
	}
	p, err := p.lowered(ONNX, func(o op) bool { return onnxNames[o] != "" || o == opTrue || o == opFalse }, true)
	if err != nil {
		return nil, err
	}
	g := &onnxGraph{prefix: "moe.", known: map[string]string{}}
	inputs := []string{}
	var ends message // fields 11 and 12 of the graph
	input := func(name string, kind int64) {
		inputs = append(inputs, name)
		ends = ends.bytes(11, info(name, kind, 0))
	}
	for _, c := range p.columns {
		kind := int64(onnxDouble)
		if c.words {
			kind = onnxString
		}
		input(c.name, kind)
	}
	if p.posterior != nil {
		input(p.target, onnxDouble)
	}
	for slices.ContainsFunc(inputs, func(name string) bool { return strings.HasPrefix(name, g.prefix) }) {
		g.prefix += "."
	}
	names := g.program(p)
	output := func(name string, kind int64, columns int64) string {
		for slices.Contains(inputs, name) {
			name += "_"
		}
		ends = ends.bytes(12, info(name, kind, columns))
		return name
	}
	g.nodeTo(output("mean", onnxDouble, 0), "", "Identity", []string{names[p.mean]})
	for _, all := range []struct {
		name string
		refs []ref
	}{{"gate", p.gate}, {"posterior", p.posterior}} {
		if all.refs == nil {
			continue
		}
		var columns []string
		for _, r := range all.refs {
			columns = append(columns, g.node("", "Unsqueeze", []string{names[r], g.whole(1)}))
		}
		g.nodeTo(output(all.name, onnxDouble, int64(len(columns))), "", "Concat", columns,
			attribute("axis", attributeInt, message(nil).number(3, 1)))
	}
	graph := append(append(append(message(nil), g.nodes.text(2, "moe")...), g.constants...), ends...)
	out := message(nil).number(1, onnxFormat).text(2, "moe").text(6, title).bytes(7, graph)
	out = out.bytes(8, message(nil).text(1, "").number(2, onnxOperators))
	return out.bytes(8, message(nil).text(1, learning).number(2, onnxLearning)), nil
}

// program adds the nodes of a program that its outputs need, and returns the names of their values.
func (g *onnxGraph) program(p *program) []string {
	needed := make([]bool, len(p.nodes))
	for _, r := range p.outputs() {
		needed[r] = true
	}
	for r := len(p.nodes) - 1; r >= 0; r-- {
		for _, a := range p.nodes[r].args {
			needed[a] = needed[a] || needed[r]
		}
	}
	names := make([]string, len(p.nodes))
	for r := range p.nodes {
		n := &p.nodes[r]
		if !needed[r] {
			continue
		}
		args := make([]string, len(n.args))
		for i, a := range n.args {
			args[i] = names[a]
		}
		switch n.op {
		case opNumber:
			names[r] = g.doubles(nil, n.number)
		case opTrue:
			names[r] = g.constant(onnxBool, nil, []byte{1})
		case opFalse:
			names[r] = g.constant(onnxBool, nil, []byte{0})
		case opColumn:
			names[r] = n.text
		case opY:
			names[r] = p.target
		case opCode:
			names[r] = g.place(n)
		case opPieces:
			names[r] = g.panels(n.pieces, args[0])
		default:
			names[r] = g.node("", onnxNames[n.op], args)
		}
	}
	return names
}

// cast is a tensor of another type.
func (g *onnxGraph) cast(from string, to int64) string {
	return g.node("", "Cast", []string{from}, attribute("to", attributeInt, message(nil).number(3, to)))
}

// place is that of a column's words among levels, −1 elsewhere.
func (g *onnxGraph) place(n *node) string {
	var keys, values message
	for i, level := range n.levels {
		keys, values = keys.text(9, level), values.number(8, int64(i))
	}
	at := g.node(learning, "LabelEncoder", []string{n.text}, attribute("keys_strings", attributeStrings, keys),
		attribute("values_int64s", attributeInts, values),
		attribute("default_int64", attributeInt, message(nil).number(3, -1)))
	return g.cast(at, onnxDouble)
}

// panels is a function of panels at z: the panel is the number of edges up to z.
func (g *onnxGraph) panels(p *pieces, z string) string {
	edges := g.doubles([]int64{int64(len(p.edges))}, p.edges...)
	beside := g.node("", "Unsqueeze", []string{z, g.whole(-1)})
	above := g.cast(g.node("", "GreaterOrEqual", []string{beside, edges}), onnxInt64)
	at := g.node("", "ReduceSum", []string{above, g.whole(-1)},
		attribute("keepdims", attributeInt, message(nil).number(3, 0)))
	of := func(values []float64) string {
		return g.node("", "Gather", []string{g.doubles([]int64{int64(len(values))}, values...), at})
	}
	t := g.node("", "Mul", []string{g.node("", "Sub", []string{z, of(p.centre)}), of(p.slope)})
	value := ""
	for j := len(p.coefficients[0]) - 1; j >= 0; j-- {
		column := make([]float64, len(p.coefficients))
		for i, row := range p.coefficients {
			column[i] = row[j]
		}
		if value == "" {
			value = of(column)
			continue
		}
		value = g.node("", "Add", []string{g.node("", "Mul", []string{value, t}), of(column)})
	}
	return value
}
