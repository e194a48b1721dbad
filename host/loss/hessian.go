package loss

import "gonum.org/v1/gonum/mat"

// informationSums are the Gram matrices of the observed information, whose
// weights are the second derivatives of [mixture.Posterior], for all parameters
// whichever are free.
type informationSums struct {
	// for every mean i: its own with means j ≥ i, then with the gate's rows; then the gate's, j ≤ m
	grams
	noiseCoef  []float64 // own parameters × (means and the gate's rows): log ψ with every coefficient
	noiseNoise []float64 // own parameters × own parameters
	output     outputInformation
}

func newInformationSums(o *layout) *informationSums {
	return &informationSums{
		grams:      newGrams(o, o.means*(o.means+1)/2+o.means*o.gates+o.gates*(o.gates+1)/2),
		noiseCoef:  make([]float64, o.noises*(o.means*o.da+o.gates*o.dw)),
		noiseNoise: make([]float64, o.noises*o.noises),
		output:     newOutputInformation(o),
	}
}

func (s *informationSums) values() [][]float64 {
	return append([][]float64{s.Sums, s.noiseCoef, s.noiseNoise}, s.output.values()...)
}

// noiseExpert returns the sums of log ψ_m with mean i, noiseGate those with row
// j of the gate.
func (s *informationSums) noiseExpert(m, i int) []float64 {
	at := m*(s.means*s.da+s.gates*s.dw) + i*s.da
	return s.noiseCoef[at : at+s.da]
}

func (s *informationSums) noiseGate(m, j int) []float64 {
	at := m*(s.means*s.da+s.gates*s.dw) + s.means*s.da + j*s.dw
	return s.noiseCoef[at : at+s.dw]
}

func (s *informationSums) block(w *work) {
	n := w.N
	w.differentiate()
	g := s.Begin(&w.Design)
	for i := range s.means {
		var bend []float64
		if w.bend != nil {
			bend = w.bend[i*n : (i+1)*n]
		}
		for j := i; j < s.means; j++ {
			w.ExpertExpert(g.Terms, i, j, bend)
			g.Next()
		}
		for j := range s.gates {
			w.ExpertGate(g.Terms, i, j)
			g.Next()
		}
	}
	for j := range s.gates {
		for m := j; m < s.gates; m++ {
			w.GateGate(g.Terms, j, m)
			g.Next()
		}
	}
	if s.free.Sigma {
		s.noiseBlock(w, w.terms[:n])
	}
	s.output.block(w)
}

// noiseBlock adds the rows of the information that belong to log ψ.
func (s *informationSums) noiseBlock(w *work, wt []float64) {
	w.DifferentiateNoise()
	for m := range s.noises {
		level, l := s.levelOf(m)
		for i := range s.means {
			w.NoiseExpert(wt, level, l, i)
			w.AddWeighted(s.noiseExpert(m, i), wt, s.expert)
		}
		for j := range s.gates {
			w.NoiseGate(wt, level, l, j)
			w.AddWeighted(s.noiseGate(m, j), wt, s.gate)
		}
		for i := range s.noises {
			other, n := s.levelOf(i)
			w.NoiseNoise(wt, level, l, other, n)
			s.noiseNoise[m*s.noises+i] += w.Sum(wt)
		}
	}
}

// write writes the information over the free parameters, times factor, to h.
func (s *informationSums) write(h *mat.SymDense, factor float64) {
	if !h.IsEmpty() && h.SymmetricDim() != len(s.parameters) {
		panic("loss: hessian of the wrong size")
	}
	at := 0
	put := func(r, c int, rows, cols []int) {
		if r >= 0 && c >= 0 {
			s.Put(h, at, r, c, rows, cols, factor)
		}
		at++
	}
	for i := range s.means {
		for j := i; j < s.means; j++ {
			put(s.regressor(i), s.regressor(j), s.expert, s.expert)
		}
		for j := range s.gates {
			put(s.regressor(i), s.row(j), s.expert, s.gate)
		}
	}
	for j := range s.gates {
		for m := j; m < s.gates; m++ {
			put(s.row(j), s.row(m), s.gate, s.gate)
		}
	}
	if s.free.Sigma {
		s.writeNoise(h, factor)
	}
	s.output.write(h, factor)
}

func (s *informationSums) writeNoise(h *mat.SymDense, factor float64) {
	for m := range s.noises {
		column := func(from int, v []float64) {
			for t := range v {
				if from >= 0 {
					h.SetSym(from+t, s.noise(m), factor*v[t])
				}
			}
		}
		for i := range s.means {
			column(s.regressor(i), s.noiseExpert(m, i))
		}
		for j := range s.gates {
			column(s.row(j), s.noiseGate(m, j))
		}
		for i := m; i < s.noises; i++ {
			h.SetSym(s.noise(m), s.noise(i), factor*s.noiseNoise[m*s.noises+i])
		}
	}
}

// holdGradient sets the gradient by log σ, and by the other own parameters, to 0 where it stands at an end of what it
// may be and is pushed beyond.
func (o *layout) holdGradient(grad, theta []float64) {
	if !o.free.Sigma {
		return
	}
	for m := range o.noises {
		at := o.noise(m)
		if e := o.endsOf(at); theta[at] <= e.least && grad[at] > 0 || theta[at] >= e.most && grad[at] < 0 {
			grad[at] = 0
		}
	}
}

// holdHessian takes the own parameters that stand at an end and are pushed beyond
// it out of a Newton step: row and column of the identity.
func (o *layout) holdHessian(h *mat.SymDense, grad, theta []float64) {
	if !o.free.Sigma {
		return
	}
	for m := range o.noises {
		at := o.noise(m)
		if !o.atEnd(at, theta) || grad[at] != 0 {
			continue
		}
		for j := range o.parameters {
			h.SetSym(at, j, 0)
		}
		h.SetSym(at, at, 1)
	}
}

// atEnd says whether place at of θ, which is one of ψ, stands at an end of what it may be.
func (o *layout) atEnd(at int, theta []float64) bool {
	e := o.endsOf(at)
	return theta[at] <= e.least || theta[at] >= e.most
}

// eachAtEnd calls fn with every own parameter that stands at an end, and its place in θ.
func (o *layout) eachAtEnd(theta []float64, fn func(m, at int)) {
	for m := range o.noises {
		if at := o.noise(m); at >= 0 && o.atEnd(at, theta) {
			fn(m, at)
		}
	}
}
