package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Hierarchy is the shape of a tree of gates whose leaves are experts (Jordan &
// Jacobs 1994): P(leaf) is the product of the softmax probabilities along its
// path. The zero value is a leaf. The mixture of 002 Eq. 1 is a node of K leaves,
// the GRU's (000 §2) is 2x(1,2).
//
// Experts are numbered in the order of the leaves from left to right. Row i of
// [Params.Gating] belongs to the node at which leaves i and i+1 part, and is the
// predictor of the branch that leaf i is under; that of a node's last branch is 0. So
// a tree has as many rows as a flat gate over its leaves, and the rows of a node of
// leaves are those leaves' own.
type Hierarchy struct {
	Branches []Hierarchy // two or more, or none of a leaf
}

// FlatHierarchy returns the tree of k experts under one gate.
func FlatHierarchy(k int) Hierarchy {
	if k == 1 {
		return Hierarchy{}
	}
	return Hierarchy{make([]Hierarchy, k)}
}

// Leaves returns the number of experts.
func (h Hierarchy) Leaves() int {
	if len(h.Branches) == 0 {
		return 1
	}
	n := 0
	for _, b := range h.Branches {
		n += b.Leaves()
	}
	return n
}

// Depth returns the number of gates along the longest path: 1 for a flat mixture.
func (h Hierarchy) Depth() int {
	most := -1
	for _, b := range h.Branches {
		most = max(most, b.Depth())
	}
	return most + 1
}

// GateNode is a gate of a tree: the run of leaves below it, and where each of its
// branches ends.
type GateNode struct {
	From, To int   // leaves From ≤ i < To
	Ends     []int // branch c ends before leaf Ends[c]; the last is To
}

// Branch returns the leaves from ≤ i < to of branch c.
func (g GateNode) Branch(c int) (from, to int) {
	if c == 0 {
		return g.From, g.Ends[0]
	}
	return g.Ends[c-1], g.Ends[c]
}

// Row returns the row of [Params.Gating] that is the predictor of branch c, which is
// not the last.
func (g GateNode) Row(c int) int { return g.Ends[c] - 1 }

// Gates lists the gates, parents first.
func (h Hierarchy) Gates() []GateNode {
	gates, _ := h.gates(nil, 0)
	return gates
}

// gates appends those of h, whose leaves begin at from, and returns where they end.
func (h Hierarchy) gates(list []GateNode, from int) (_ []GateNode, to int) {
	if len(h.Branches) == 0 {
		return list, from + 1
	}
	at := len(list)
	list = append(list, GateNode{From: from})
	ends := make([]int, len(h.Branches))
	for c, b := range h.Branches {
		list, from = b.gates(list, from)
		ends[c] = from
	}
	list[at].Ends, list[at].To = ends, from
	return list, from
}

// Relabel returns the shape after leaf i has become leaf perm[i], with the branches of
// every gate in the order of their leaves. It panics if the leaves of a branch are then
// not beside each other.
func (h Hierarchy) Relabel(perm []int) Hierarchy {
	if len(h.Branches) == 0 {
		return h
	}
	type branch struct {
		h     Hierarchy
		first int
	}
	var branches []branch
	for _, b := range h.Branches {
		own := perm[:b.Leaves()]
		perm = perm[b.Leaves():]
		first := slices.Min(own)
		if slices.Max(own)-first != len(own)-1 {
			panic(fmt.Sprintf("model: leaves of a branch of %s are parted", h))
		}
		branches = append(branches, branch{b.Relabel(own), first})
	}
	slices.SortFunc(branches, func(a, b branch) int { return a.first - b.first })
	out := Hierarchy{make([]Hierarchy, len(branches))}
	for i, b := range branches {
		out.Branches[i] = b.h
	}
	return out
}

// Equal says whether the trees have the same shape, in the same order.
func (h Hierarchy) Equal(o Hierarchy) bool {
	return slices.EqualFunc(h.Branches, o.Branches, Hierarchy.Equal)
}

// String returns the shape as [ParseHierarchy] reads it: 2x2, 2x(1,2), 4.
func (h Hierarchy) String() string {
	n := len(h.Branches)
	if n == 0 {
		return "1"
	}
	first := h.Branches[0]
	if slices.ContainsFunc(h.Branches, func(b Hierarchy) bool { return !b.Equal(first) }) {
		each := make([]string, n)
		for i, b := range h.Branches {
			each[i] = b.String()
		}
		return fmt.Sprintf("%dx(%s)", n, strings.Join(each, ","))
	}
	if len(first.Branches) == 0 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%dx%s", n, first)
}

// mostLeaves bounds what [ParseHierarchy] builds.
const mostLeaves = 4096

// ParseHierarchy reads a shape. N is a gate over N leaves and 1 is a leaf; NxS is a
// gate over N branches, all of shape S; Nx(S1,…,SN) is one whose branches differ.
// Errors name the character, counted from 1.
func ParseHierarchy(s string) (Hierarchy, error) {
	p := &hierarchyParser{text: s}
	h, err := p.shape()
	if err == nil && p.at < len(s) {
		err = p.errorf("want the end")
	}
	if err != nil {
		return Hierarchy{}, fmt.Errorf("hierarchy %q: %w (as in 2x2 or 2x(1,2))", s, err)
	}
	return h, nil
}

type hierarchyParser struct {
	text string
	at   int
}

func (p *hierarchyParser) errorf(format string, args ...any) error {
	return fmt.Errorf("character %d: %s", p.at+1, fmt.Sprintf(format, args...))
}

// take says whether c comes next, and goes past it.
func (p *hierarchyParser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// shape reads N, NxS or Nx(S1,…,SN).
func (p *hierarchyParser) shape() (Hierarchy, error) {
	start := p.at
	n, err := p.number()
	if err != nil {
		return Hierarchy{}, err
	}
	h := FlatHierarchy(n)
	if !p.take('x') {
		return h, nil
	}
	if n == 1 {
		p.at = start
		return Hierarchy{}, p.errorf("a gate has two branches or more")
	}
	if p.take('(') {
		return h, p.list(h.Branches)
	}
	branch, err := p.shape()
	if err != nil {
		return Hierarchy{}, err
	}
	if n*branch.Leaves() > mostLeaves {
		p.at = start
		return Hierarchy{}, p.errorf("more than %d leaves", mostLeaves)
	}
	for i := range h.Branches {
		h.Branches[i] = branch
	}
	return h, nil
}

// list reads S1,…,SN and the bracket that closes it.
func (p *hierarchyParser) list(dst []Hierarchy) (err error) {
	leaves := 0
	for i := range dst {
		if i > 0 && !p.take(',') {
			return p.errorf("%d of %d branches, want a comma and the next", i, len(dst))
		}
		if dst[i], err = p.shape(); err != nil {
			return err
		}
		if leaves += dst[i].Leaves(); leaves > mostLeaves {
			return p.errorf("more than %d leaves", mostLeaves)
		}
	}
	if !p.take(')') {
		return p.errorf("want ) after %d branches", len(dst))
	}
	return nil
}

// number reads a number of branches.
func (p *hierarchyParser) number() (int, error) {
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	digits := p.text[start:p.at]
	n, err := strconv.Atoi(digits)
	switch {
	case digits == "":
		return 0, p.errorf("want a number of branches")
	case err != nil || n > mostLeaves:
		p.at = start
		return 0, p.errorf("more than %d leaves", mostLeaves)
	case n == 0:
		p.at = start
		return 0, p.errorf("a gate has two branches or more")
	}
	return n, nil
}
