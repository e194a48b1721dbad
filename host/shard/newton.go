package shard

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/textfile"
	"github.com/gatedlearning/moe/sdk"
)

const (
	// NewtonFormat is the format of the files of a pass of Newton's method.
	NewtonFormat = "moe-newton/v1"
	// NewtonMethod is what the models of these passes call their method.
	NewtonMethod = "newton"
	// MostPasses bounds the passes, SmallStep ends them: no parameter then moves by
	// more than that times the larger of 1 and its size.
	MostPasses = 8
	SmallStep  = 1e-9
	// Where g has kinks the likelihood has some too, and its maximum may be at one, which
	// steps leap over. There passes end if the last step lowered the log-likelihood by
	// less than kinkSlack, the slack of fits on one machine too, and the decrement of the
	// next is below kinkDecrement: it bounds the square of every parameter's distance to
	// the maximum in standard errors.
	kinkSlack     = 0.01
	kinkDecrement = 0.1
)

// Newton are the sums of one pass of Newton's method over a part of a table: the
// log-likelihood at the parameters of a model, its score and its observed information.
// At a model where the passes have converged they are those of its certificate.
type Newton struct {
	newtonHeader
	sums    []float64      // log-likelihood, weight, Σ p_i, score, upper triangle of the information
	second  *tensor.Second // of the features and the target, of the first pass
	squares *infer.Squares // of the passes behind it
	tests   *tests         // of the certificate, which has nothing else
}

type newtonHeader struct {
	Table  Table           `json:"table"`
	Place  Place           `json:"place"`
	Model  json.RawMessage `json:"model"` // at whose parameters the sums are
	Kinks  []float64       `json:"kinks"` // of its activation
	Bodies []body          `json:"bodies"`
}

// SumNewton makes a pass over a part of the table at the parameters of m, or sums what
// the certificate needs where the passes have converged there. The part is held in memory.
func SumNewton(ctx context.Context, src dataset.Source, t Table, at Place, m *fitted.Model, act sdk.Activation, workers int) (*Newton, error) {
	text, err := m.JSON()
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, err
	}
	out := &Newton{newtonHeader: newtonHeader{Table: t, Place: at, Model: compact.Bytes(), Kinks: act.Info().Kinks}}
	from, to := at.Blocks(t.Blocks())
	data := &model.Data{D: len(t.Features)}
	err = dataset.ReadRange(ctx, src, from, to, func(_ int, b *model.Block) error {
		data.Blocks = append(data.Blocks, b.Clone())
		data.N += b.N
		return nil
	})
	if err != nil {
		return nil, err
	}
	if certifies(m) {
		out.tests, err = sumTests(ctx, m, act, data, from, workers)
		return out, err
	}
	if err := out.pass(ctx, m, act, data, workers); err != nil {
		return nil, err
	}
	return out, out.scales(ctx, m, data, from)
}

// pass sums what the step needs.
func (n *Newton) pass(ctx context.Context, m *fitted.Model, act sdk.Activation, data *model.Data, workers int) error {
	p := m.Params()
	free := freeOf(m)
	q := likelihoodOf(p, free).Dim()
	n.sums = make([]float64, 2+p.K+q+q*(q+1)/2)
	if data.N == 0 {
		return nil
	}
	l := loss.NewLikelihood(data, act, p, free, workers)
	h := mat.NewSymDense(q, nil)
	if err := l.Information(ctx, h, n.score(p.K, q), p, n.Kinks); err != nil {
		return err
	}
	packed := n.sums[2+p.K+q:]
	for i := range q {
		for j := i; j < q; j++ {
			packed[0] = h.At(i, j)
			packed = packed[1:]
		}
	}
	priors, err := l.Proportions(ctx, p)
	if err != nil {
		return err
	}
	n.sums[1] = l.Rows()
	for i, v := range priors {
		n.sums[2+i] = v * l.Rows()
	}
	if n.sums[0], err = l.LogLikelihood(ctx, p); err != nil {
		return err
	}
	if !numeric.Finite(n.sums...) {
		return &dataset.Error{File: n.Table.Target, Msg: "the log-likelihood of the model is not finite on these rows"}
	}
	return nil
}

func (n *Newton) score(k, q int) []float64 { return n.sums[2+k : 2+k+q] }

// freeOf says which parameters of a model are estimated: all, but for the coefficients
// of features that no expert, or no gate, has, and a noise level that was given.
func freeOf(m *fitted.Model) loss.Free {
	p := m.Params()
	seen := func(rows []float64) []int {
		columns, all := []int{}, true
		for j := range p.D {
			any := false
			for i := j; i < len(rows); i += p.D {
				any = any || rows[i] != 0
			}
			if all = all && any; any {
				columns = append(columns, j)
			}
		}
		if all {
			return nil
		}
		return columns
	}
	free := loss.All
	free.Sigma = !m.Fit.SigmaGiven
	free.ExpertColumns, free.GateColumns = seen(p.Regressors), seen(p.Gating)
	return free
}

// likelihoodOf knows where in θ the parameters of p stand; it has a row of zeros.
func likelihoodOf(p *model.Params, free loss.Free) *loss.Likelihood {
	row := model.Block{N: 1, X: make([]float64, p.D), Y: make([]float64, 1)}
	return loss.NewLikelihood(&model.Data{N: 1, D: p.D, Blocks: []model.Block{row}}, nil, p, free, 1)
}

// Step is what a pass over all rows came to.
type Step struct {
	Model     *fitted.Model // after the step
	Pass      int           // from 1
	Size      float64       // of the step: the most that a parameter moves, relative to the larger of 1 and its size
	Converged bool          // Size is at most SmallStep and the largest expert is the first, or AtKink
	AtKink    bool          // the maximum is at a kink of the likelihood, and Model as near to it as matters
	Certified bool          // it was no pass but the certificate behind them: Model has it, and Size says nothing
}

// GoOn says whether another pass is to be made at Model.
func (s *Step) GoOn() bool {
	if s.Converged {
		return s.Model.Fit.Passes != nil
	}
	return s.Pass < MostPasses
}

// MergeNewton puts the parts of a pass together and makes its step,
// θ + H⁻¹·s with the score s and the observed information H. Where H is not positive
// definite its diagonal is raised until it is. What does not fit together, and parts of a
// certificate, which [Certify] merges, are a *dataset.Error.
func MergeNewton(files []string, parts []*Newton) (*Step, error) {
	m, all, err := mergeNewton(files, parts)
	if err != nil {
		return nil, err
	}
	if all.sums == nil {
		return nil, &dataset.Error{File: files[0], Msg: "it is of no pass but of the certificate behind them"}
	}
	return step(m, all)
}

// mergeNewton returns the sums of all parts, and the model that they are at.
func mergeNewton(files []string, parts []*Newton) (*fitted.Model, *Newton, error) {
	places, err := newtonPlaces(files, parts)
	if err != nil {
		return nil, nil, err
	}
	order, err := complete(files, places)
	if err != nil {
		return nil, nil, err
	}
	m, err := parts[0].At()
	if err != nil {
		return nil, nil, &dataset.Error{File: files[0], Msg: "the model in it cannot be read: " + err.Error()}
	}
	return m, addNewton(parts, order), nil
}

// At returns the model at which the sums are.
func (n *Newton) At() (*fitted.Model, error) {
	m := new(fitted.Model)
	if err := json.Unmarshal(n.Model, m); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

// JoinNewton makes one part of parts of one pass that follow one another in this order,
// for those who merge in several steps. What does not fit together is a *dataset.Error.
func JoinNewton(files []string, parts []*Newton) (*Newton, error) {
	places, err := newtonPlaces(files, parts)
	if err != nil {
		return nil, err
	}
	at, err := joined(files, places)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	out := addNewton(parts, order)
	out.Place = at
	return out, nil
}

// newtonPlaces returns the places of parts of one pass over one table.
func newtonPlaces(files []string, parts []*Newton) ([]Place, error) {
	places := make([]Place, len(parts))
	for i, p := range parts {
		places[i] = p.Place
		if why := p.Table.differs(parts[0].Table); why != "" {
			return nil, &dataset.Error{File: files[i], Msg: fmt.Sprintf("it does not go with %s: %s", files[0], why)}
		}
		if !bytes.Equal(p.Model, parts[0].Model) {
			return nil, &dataset.Error{File: files[i], Msg: fmt.Sprintf("it does not go with %s: they are at different models", files[0])}
		}
	}
	return places, nil
}

// addNewton adds the sums of parts up in this order.
func addNewton(parts []*Newton, order []int) *Newton {
	first := parts[0]
	out := &Newton{newtonHeader: first.newtonHeader}
	if first.sums != nil {
		out.sums = make([]float64, len(first.sums))
	}
	if first.second != nil {
		out.second = tensor.NewSecond(first.second.D)
	}
	if first.squares != nil {
		out.squares = first.squares.Like()
	}
	if first.tests != nil {
		out.tests = first.tests.like()
	}
	for _, i := range order {
		out.add(parts[i])
	}
	return out
}

// add adds the sums of a part at the same model.
func (n *Newton) add(o *Newton) {
	floats.Add(n.sums, o.sums)
	if n.second != nil {
		n.second.Merge(o.second)
	}
	if n.squares != nil {
		n.squares.Merge(o.squares)
	}
	if n.tests != nil {
		n.tests.add(o.tests)
	}
}

func step(m *fitted.Model, all *Newton) (*Step, error) {
	p, free := m.Params(), freeOf(m)
	l := likelihoodOf(p, free)
	q := l.Dim()
	score, h := all.score(p.K, q), mat.NewSymDense(q, nil)
	packed := all.sums[2+p.K+q:]
	for i := range q {
		for j := i; j < q; j++ {
			h.SetSym(i, j, packed[0])
			packed = packed[1:]
		}
	}
	s := &Step{Pass: 1}
	if m.Fit.Method == NewtonMethod {
		s.Pass = m.Fit.Iterations + 1
	}
	passes, uncertified := all.passes(m)
	move, damped, err := newtonStep(h, score)
	if err != nil {
		return nil, err
	}
	n, loglik := all.sums[1], all.sums[0]
	theta := l.Theta(p)
	s.Size = optim.Largest(move, theta)
	for i := range m.Proportions {
		m.Proportions[i] = all.sums[2+i] / all.sums[1]
	}
	fell := m.Fit.LogLikelihood - loglik
	ordered := inOrder(m.Proportions)
	s.AtKink = ordered && len(all.Kinks) > 0 && s.Pass > 1 && !damped && fell >= 0 && fell < kinkSlack && floats.Dot(move, score) < kinkDecrement
	s.Model = m
	s.Converged = ordered && s.Size <= SmallStep || s.AtKink
	if !s.AtKink {
		floats.Add(theta, move)
	}
	after := l.Params(theta)
	m.SetParams(after)
	m.Fit = fitted.Fit{
		Method: NewtonMethod, Seed: m.Fit.Seed, SigmaGiven: m.Fit.SigmaGiven, N: all.Table.Rows, LogLikelihood: loglik,
		BIC: float64(q)*math.Log(n) - 2*loglik, AIC: 2*float64(q) - 2*loglik,
		Converged: s.Converged, Status: fmt.Sprintf("the step of pass %d is %.2g", s.Pass, s.Size), Iterations: s.Pass,
		Starts: []fitted.Start{}, Notes: []string{}, Passes: passes,
	}
	if uncertified != "" {
		m.Fit.Notes = append(m.Fit.Notes, "no certificate: "+uncertified)
	}
	m.StandardErrors, m.Covariance, m.Truth = nil, nil, nil
	if all.Table.Weights != "" {
		m.Fit.Weight = n
	}
	if s.AtKink {
		m.Fit.Notes = append(m.Fit.Notes, fmt.Sprintf("the maximum is at a kink of the likelihood: the last step lowered its logarithm by %.2g", fell))
	}
	if !s.Converged {
		sortExperts(m)
	}
	if s.Converged {
		m.Fit.Status = "converged"
		if passes != nil {
			m.Fit.Notes = append(m.Fit.Notes, notYet)
		}
		c, err := infer.FromInformation(h, score, l.Parameters(), after, n, all.Kinks)
		if err != nil {
			m.Fit.Notes = append(m.Fit.Notes, "no standard errors: "+err.Error())
			return s, nil
		}
		m.StandardErrors = fitted.NewStandardErrors(string(infer.Observed), c.Errors(after), free.Sigma)
	}
	return s, nil
}

// newtonStep returns h⁻¹·score, by h scaled to unit diagonal with as much on its
// diagonal as makes it positive definite; damped says that there was need of any.
func newtonStep(h *mat.SymDense, score []float64) (move []float64, damped bool, err error) {
	q := len(score)
	scale, right := make([]float64, q), mat.NewVecDense(q, nil)
	for i := range q {
		scale[i] = 1
		if v := math.Abs(h.At(i, i)); v > 0 {
			scale[i] = 1 / math.Sqrt(v)
		}
		right.SetVec(i, scale[i]*score[i])
	}
	for damping := 0.0; damping < 1e6; damping = max(1e-6, 10*damping) {
		scaled := mat.NewSymDense(q, nil)
		for i := range q {
			for j := i; j < q; j++ {
				scaled.SetSym(i, j, scale[i]*h.At(i, j)*scale[j])
			}
			scaled.SetSym(i, i, scaled.At(i, i)+damping)
		}
		var chol mat.Cholesky
		var x mat.VecDense
		if !chol.Factorize(scaled) || chol.SolveVecTo(&x, right) != nil {
			continue
		}
		out := make([]float64, q)
		for i := range q {
			out[i] = scale[i] * x.AtVec(i)
		}
		return out, damping > 0, nil
	}
	return nil, false, fmt.Errorf("shard: no step: the information has no positive diagonal")
}

// MarshalBinary writes the sums with all that they are of.
func (n *Newton) MarshalBinary() ([]byte, error) {
	h := n.newtonHeader
	h.Bodies = nil
	put := func(name string, v encoding.BinaryMarshaler) error {
		b, err := bodyOf(name, 0, 0, v)
		h.Bodies = append(h.Bodies, b)
		return err
	}
	var err error
	if n.sums != nil {
		err = put("sums", values(n.sums))
	}
	if n.second != nil && err == nil {
		err = put("second", n.second)
	}
	if n.squares != nil && err == nil {
		err = put("squares", values(squaresValues(n.squares)))
	}
	if n.tests != nil && err == nil {
		err = errors.Join(put("tests", values(n.tests.sumsValues())), put("draws", values(n.tests.drawnValues())))
	}
	if err != nil {
		return nil, err
	}
	return seal(NewtonFormat, h, h.Bodies)
}

// UnmarshalBinary reads what [Newton.MarshalBinary] wrote.
func (n *Newton) UnmarshalBinary(data []byte) error {
	out := new(Newton)
	rest, err := open(data, NewtonFormat, &out.newtonHeader)
	if err != nil {
		return err
	}
	if err := cut(rest, out.Bodies); err != nil {
		return err
	}
	m, err := out.At()
	if err != nil {
		return err
	}
	if !out.Place.valid() || out.Table.Rows < 1 || len(out.Table.Features) != m.D {
		return errDamaged
	}
	bodies := make(map[string][]byte)
	for _, b := range out.Bodies {
		bodies[b.Name] = b.data
	}
	if len(bodies) != len(out.Bodies) {
		return errDamaged
	}
	if err := out.load(m, bodies); err != nil {
		return err
	}
	out.Bodies = nil
	*n = *out
	return nil
}

// load reads the bodies that sums at the model have, and refuses any other.
func (n *Newton) load(m *fitted.Model, bodies map[string][]byte) (err error) {
	if certifies(m) {
		n.tests, err = loadTests(m, bodies)
		return err
	}
	p := m.Params()
	q := likelihoodOf(p, freeOf(m)).Dim()
	if n.sums, err = exactly(bodies["sums"], 2+p.K+q+q*(q+1)/2); err != nil {
		return err
	}
	want := 2
	switch spec, err := specificationOf(m, nil); {
	case err != nil || spec == nil:
		want = 1
	case m.Fit.Passes == nil:
		n.second = new(tensor.Second)
		if err := n.second.UnmarshalBinary(bodies["second"]); err != nil || n.second.D != p.D {
			return errDamaged
		}
	default:
		v, err := exactly(bodies["squares"], 1+2*p.K+p.D)
		if err != nil {
			return err
		}
		n.squares = squaresOf(v, p.K)
	}
	if len(bodies) != want {
		return errDamaged
	}
	return nil
}

// exactly reads a body of so many numbers.
func exactly(data []byte, count int) ([]float64, error) {
	if len(data) != 8*count {
		return nil, errDamaged
	}
	return numbers(data)
}

// Write writes the file of a part.
func (n *Newton) Write(ctx context.Context, path string) error {
	data, err := n.MarshalBinary()
	if err != nil {
		return err
	}
	return write(ctx, path, data)
}

// ReadNewton reads the file of a part. What is none is a *dataset.Error.
func ReadNewton(path string) (*Newton, error) {
	return readAs[Newton](path, NewtonFormat)
}

// IsNewton says whether a file begins as one of [Newton].
func IsNewton(path string) bool {
	f, err := textfile.Regular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(NewtonFormat)+1)
	n, _ := io.ReadFull(f, head)
	return string(head[:n]) == NewtonFormat+"\n"
}
