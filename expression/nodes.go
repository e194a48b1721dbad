package expression

// Node is an operation of an expression, for those who write it in another language.
type Node struct {
	// Op is the name of a function of the language, a sign between two terms as "*", "neg", "and", "or", "not",
	// "number", "z", "true", "false", and of what texts have no name for "sech2", 1 − tanh², and "density", σ·(1 − σ)
	// of the sigmoid σ.
	Op     string
	Args   []int   // places of earlier nodes
	Number float64 // of "number"
}

// Nodes are those that g of e is computed of, in the form in which [Expression.Eval] does: arguments before what is
// made of them, g last.
func Nodes(e *Expression) []Node {
	places := map[ref]int{}
	var nodes []Node
	for _, r := range e.graph.reached(e.root) {
		n := e.graph.nodes[r]
		node := Node{Op: n.op.name(), Number: n.number()}
		for _, a := range n.args {
			if a != none {
				node.Args = append(node.Args, places[a])
			}
		}
		places[r] = len(nodes)
		nodes = append(nodes, node)
	}
	return nodes
}

// name is that of [Node].
func (o op) name() string {
	switch o {
	case opNumber:
		return "number"
	case opZ:
		return "z"
	case opNeg:
		return "neg"
	case opNot:
		return "not"
	case opSech2:
		return "sech2"
	case opDensity:
		return "density"
	}
	for sign, in := range infix {
		if in.op == o {
			return sign
		}
	}
	return o.String()
}
