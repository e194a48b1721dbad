package shard

import (
	"encoding"
	"fmt"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard/sealed"
	"github.com/gatedlearning/moe/host/tensor"
)

// sums are those of one kind that a round makes over a part of a table, by nodes of its blocks.
type sums interface {
	add(at model.Node, b *model.Block, room *tensor.Scratch) // of a block in the units of the round
	each(fn func(at model.Node, s encoding.BinaryMarshaler)) // in the order of the blocks
	load(at model.Node, data []byte, rows, d int) error      // a node over so many rows of d features
	graft(o sums) error                                      // those of another part, of the same kind
}

// Kinds of sums, in the order in which files have them.
const (
	second  = iota // of the first round
	fourth         // of the last, by the polynomials
	third          // of the last
	squares        // of the second of three
	fourths        // of the last of three
	kinds
)

// bodies are the names of their bodies in files.
var bodies = [kinds]string{"second", "fourth", "third", "squares", "fourths"}

// newSums returns sums of a kind, of no node.
func newSums(kind int) sums {
	transformed := func(order int) sums {
		return newNodes(func(s *tensor.Transformed, rows, d int) bool {
			return s.Order == order && s.N == rows && (order != 2 || s.M == d)
		})
	}
	switch kind {
	case second:
		return newNodes(func(s *tensor.Second, rows, d int) bool { return s.D == d && s.N == rows })
	case fourth:
		return newNodes(func(s *tensor.Fourth, rows, d int) bool { return s.Features() == d && s.N == rows })
	case squares:
		return transformed(2)
	case third:
		return transformed(3)
	default:
		return transformed(4)
	}
}

// addend is what a tree of sums adds up.
type addend[T any] interface {
	model.Sums[T]
	Add(*model.Block, *tensor.Scratch)
	Alike(T) bool // over the same span
	Like() T
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// nodes are sums in a tree.
type nodes[T addend[T]] struct {
	tree *model.Tree[T] // nil of no node
	read func() T       // for what a file says to be read into
	fits func(s T, rows, d int) bool
}

// newNodes are sums of no node, into which those are read that fit so many rows of d features.
func newNodes[E any, T interface {
	*E
	addend[T]
}](fits func(s T, rows, d int) bool) sums {
	return &nodes[T]{read: func() T { return new(E) }, fits: fits}
}

// begin gives sums of a kind what a block is added to.
func begin[T addend[T]](of sums, empty func() T) sums {
	of.(*nodes[T]).tree = model.NewTree(empty)
	return of
}

// total is what sums come to; nil of none.
func total[T addend[T]](of sums) (out T) {
	if n, ok := of.(*nodes[T]); ok && n.tree != nil {
		return n.tree.Total()
	}
	return out
}

func (n *nodes[T]) add(at model.Node, b *model.Block, room *tensor.Scratch) {
	s := n.tree.Empty()
	s.Add(b, room)
	n.tree.Put(at, s)
}

func (n *nodes[T]) each(fn func(at model.Node, s encoding.BinaryMarshaler)) {
	if n.tree != nil {
		n.tree.Each(func(at model.Node, s T) { fn(at, s) })
	}
}

func (n *nodes[T]) load(at model.Node, data []byte, rows, d int) error {
	s := n.read()
	if err := s.UnmarshalBinary(data); err != nil {
		return err
	}
	if !n.fits(s, rows, d) {
		return sealed.ErrDamaged
	}
	n.put(at, s)
	return nil
}

// put puts a node into the tree, whose first says what others are like.
func (n *nodes[T]) put(at model.Node, s T) {
	if n.tree == nil {
		n.tree = model.NewTree(s.Like)
	}
	n.tree.Put(at, s)
}

func (n *nodes[T]) graft(o sums) error {
	var first T
	known, same := false, true
	see := func(_ model.Node, s T) {
		if !known {
			first, known = s, true
		}
		same = same && first.Alike(s)
	}
	from := o.(*nodes[T])
	for _, tree := range []*model.Tree[T]{n.tree, from.tree} {
		if tree != nil {
			tree.Each(see)
		}
	}
	if !same {
		return fmt.Errorf("its sums are over another span in the last digits: let machines of one kind of " +
			"processor make the second round")
	}
	if from.tree != nil {
		from.tree.Each(n.put)
	}
	return nil
}
