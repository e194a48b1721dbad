package export

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/table"
)

// builtins are the built-in activations as expressions.
var builtins = map[string]string{
	"identity": "z", "relu": "max(z, 0)", "leakyrelu": "where(z < 0, slope*z, z)", "sigmoid": "sigmoid(z)",
	"tanh": "tanh(z)", "exp": "where(z > 600, exp(600)*(1 + (z - 600)), exp(min(z, 600)))",
	"softplus": "softplus(beta*z)/beta", "probit": "Phi(z)",
}

// activations are those of the experts, functions of their predictors.
func (b *builder) activations(ctx context.Context) ([]func(z ref) ref, error) {
	out := make([]func(z ref) ref, b.m.K)
	kinds := stated.Kinds(b.m.Leaves)
	for i := range out {
		named, same := b.m.Activation, 0
		if b.m.Leaves != nil {
			named, same = b.m.Leaves[i], kinds[i]
		}
		if same < i {
			out[i] = out[same]
			continue
		}
		var err error
		if out[i], err = b.activation(ctx, named); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// activation is one by what the model's file has of it.
func (b *builder) activation(ctx context.Context, named stated.Activation) (func(z ref) ref, error) {
	switch {
	case named.Table != nil:
		return b.panels(curve(*named.Table), math.Inf(-1), math.Inf(1)), nil
	case b.m.Approximation != nil:
		t := &b.m.Approximation.Value
		lo, hi := t.Range()
		return b.panels(approximation(t), lo, hi), nil
	}
	text := named.Name
	if builtin, ok := builtins[text]; ok {
		text = builtin
	} else if !expression.Is(text) {
		return nil, unsupported("the activation %s is another program's, and the file has no approximation of it",
			named)
	}
	act, err := expression.Parse(text, named.Params)
	if err != nil {
		return nil, unsupported("the activation %s: %v", named, err)
	}
	e := act.(*expression.Expression)
	if err := named.Verify(ctx, "", e); err != nil {
		return nil, unsupported("the activation %s is not the function of that name here", named)
	}
	nodes := expression.Nodes(e)
	return func(z ref) ref { return b.expression(nodes, z) }, nil
}

// expression is that of nodes at z.
func (b *builder) expression(nodes []expression.Node, z ref) ref {
	at := make([]ref, len(nodes))
	for i, n := range nodes {
		switch n.Op {
		case "z":
			at[i] = z
		case "number":
			at[i] = b.num(n.Number)
		default:
			args := make([]ref, len(n.Args))
			for j, a := range n.Args {
				args[j] = at[a]
			}
			at[i] = b.make(op(n.Op), args...)
		}
	}
	return at[len(at)-1]
}

// panels is a function of panels on lo <= z < hi.
func (b *builder) panels(p *pieces, lo, hi float64) func(z ref) ref {
	p.number = len(b.program.panels()) + 1
	return func(z ref) ref {
		if !math.IsInf(lo, -1) {
			b.need(b.make(opAnd, b.make(opLessEqual, b.num(lo), z), b.make(opLess, z, b.num(hi))))
		}
		return b.add(node{op: opPieces, args: []ref{z}, pieces: p})
	}
}

// curve is a table: a line, cubics between the points, and a line.
func curve(d table.Data) *pieces {
	const terms = 4
	n := len(d.Z)
	p := &pieces{edges: d.Z}
	add := func(at int, c ...float64) {
		p.centre, p.slope = append(p.centre, d.Z[at]), append(p.slope, 1)
		p.coefficients = append(p.coefficients, append(c, make([]float64, terms-len(c))...))
	}
	add(0, d.G[0], d.Slopes[0])
	for i := range n - 1 {
		h := d.Z[i+1] - d.Z[i]
		s := (d.G[i+1] - d.G[i]) / h
		add(i, d.G[i], d.Slopes[i], (3*s-2*d.Slopes[i]-d.Slopes[i+1])/h, (d.Slopes[i]+d.Slopes[i+1]-2*s)/(h*h))
	}
	add(n-1, d.G[n-1], d.Slopes[n-1])
	return p
}

// approximation is that of a model's file, as [native.Table] has it.
func approximation(t *native.Table) *pieces {
	n, most := len(t.Terms), 0
	for _, m := range t.Terms {
		most = max(most, m)
	}
	p := &pieces{edges: t.Edges[1:n]}
	c := t.Coefficients
	for i, m := range t.Terms {
		centre, slope := 0.0, 1.0
		if lo, hi := t.Edges[i], t.Edges[i+1]; m > 2 {
			centre, slope = (lo+hi)/2, 2/(hi-lo)
		}
		p.centre, p.slope = append(p.centre, centre), append(p.slope, slope)
		row := make([]float64, most)
		copy(row, c[:m])
		p.coefficients, c = append(p.coefficients, row), c[m:]
	}
	return p
}
