package terms

import (
	"math"
	"slices"
	"strconv"
)

// columnsOf appends the names of the columns that a node reads.
func columnsOf(names []string, n *node) []string {
	if n.op == "name" && !slices.Contains(names, n.text) {
		names = append(names, n.text)
	}
	for _, a := range n.args {
		names = columnsOf(names, a)
	}
	return names
}

// evaluate writes the values of an expression to dst; column returns those of a
// column, as many.
func evaluate(dst []float64, n *node, column func(name string) []float64) {
	switch {
	case n.op == "name":
		copy(dst, column(n.text))
		return
	case n.op == "number":
		v, _ := strconv.ParseFloat(n.text, 64)
		for i := range dst {
			dst[i] = v
		}
		return
	}
	evaluate(dst, n.args[0], column)
	if len(n.args) == 2 {
		right := make([]float64, len(dst))
		evaluate(right, n.args[1], column)
		for i, v := range right {
			dst[i] = apply2(n.op, dst[i], v)
		}
		return
	}
	name := n.op
	if n.op == "call" {
		name = n.text
	}
	for i, v := range dst {
		dst[i] = apply1(name, v)
	}
}

func apply1(name string, v float64) float64 {
	switch name {
	case "-":
		return -v
	case "log":
		return math.Log(v)
	case "exp":
		return math.Exp(v)
	case "sqrt":
		return math.Sqrt(v)
	}
	return v // parentheses, I, unary plus
}

func apply2(op string, a, b float64) float64 {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	return math.Pow(a, b)
}

// Fold computes an expression of columns that a design holds in values of any kind: apply gets "+", "-", "*", "/" or
// "^" with two of them, or "-", "log", "exp" or "sqrt" with one.
func Fold[T any](text string, number func(float64) T, column func(name string) T,
	apply func(op string, args ...T) T) (T, error) {
	n, err := parseArithmetic(text)
	if err != nil {
		var none T
		return none, err
	}
	var of func(n *node) T
	of = func(n *node) T {
		switch {
		case n.op == "name":
			return column(n.text)
		case n.op == "number":
			v, _ := strconv.ParseFloat(n.text, 64)
			return number(v)
		case len(n.args) == 2:
			return apply(n.op, of(n.args[0]), of(n.args[1]))
		case n.op == "-":
			return apply("-", of(n.args[0]))
		case n.op == "call" && slices.Contains(functions, n.text):
			return apply(n.text, of(n.args[0]))
		}
		return of(n.args[0]) // parentheses, I, unary plus
	}
	return of(n), nil
}
