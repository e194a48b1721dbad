package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/numeric"
)

// screening is the state of the search between waves of starts.
type screening struct {
	Least  int              `json:"least"`  // starts to run before it may end
	Done   bool             `json:"done"`   // what follows is the refinement on all rows
	Starts []savedCandidate `json:"starts"` // best first
}

// savedCandidate is a candidate as a checkpoint keeps it. Its numbers may be infinite where it failed.
type savedCandidate struct {
	Kind       string       `json:"kind"`
	Status     optim.Status `json:"status"`
	Iterations int          `json:"iterations"`
	Rows       int          `json:"rows"`
	Agrees     bool         `json:"agrees"`
	Degenerate bool         `json:"shrunk"`
	Ridge      float64      `json:"ridge"`
	Contended  bool         `json:"contended,omitempty"`
	Value      exact        `json:"value"`
	X          exact        `json:"x"`
	Trace      exact        `json:"trace"`

	Params exact `json:"params"` // in the order of model.Params.Each
}

// exact are numbers of any kind, also infinite ones, to the last bit: base64 of
// little-endian float64 in JSON, null for nil.
type exact []float64

// MarshalJSON implements json.Marshaler.
func (e exact) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	return json.Marshal(numeric.AppendFloats(make([]byte, 0, 8*len(e)), e))
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *exact) UnmarshalJSON(data []byte) error {
	var b []byte
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	*e = nil
	if b == nil {
		return nil
	}
	if len(b)%8 != 0 {
		return fmt.Errorf("%d bytes are no list of float64", len(b))
	}
	*e = make(exact, len(b)/8)
	numeric.ReadFloats(*e, b)
	return nil
}

// State is where the search stood, for parameters of the shape of blank.
func (c *Checkpoint) State(blank *model.Params) (search.State, error) {
	return c.Screening.state(func(s *savedCandidate) (*search.Candidate, error) { return s.candidate(blank) })
}

// StateOfSeveral is where a search over so many parameters of several targets stood.
func (c *Checkpoint) StateOfSeveral(parameters int) (search.State, error) {
	return c.Screening.state(func(s *savedCandidate) (*search.Candidate, error) { return s.ofSeveral(parameters) })
}

// state is where the search stood, with its candidates as of reads them.
func (s *screening) state(of func(*savedCandidate) (*search.Candidate, error)) (search.State, error) {
	out := search.State{Least: s.Least, Done: s.Done}
	for i := range s.Starts {
		c, err := of(&s.Starts[i])
		if err != nil {
			return out, err
		}
		out.Candidates = append(out.Candidates, c)
	}
	if out.Done && len(out.Candidates) == 0 {
		return out, Damaged("it has no starts")
	}
	return out, nil
}

// saveCandidate writes down a candidate; of one with vector outputs its run says all.
func saveCandidate(c *search.Candidate) savedCandidate {
	s := savedCandidate{
		Kind: c.Kind, Status: c.Run.Status, Iterations: c.Run.Iterations, Rows: c.Rows, Agrees: c.Agrees,
		Degenerate: c.Degenerate, Ridge: c.Ridge, Contended: c.Contended,
		Value: exact{c.Run.Value}, X: c.Run.X, Trace: c.Run.Trace,
	}
	if c.Params != nil {
		c.Params.Each(func(_ model.ParamPart, values []float64) { s.Params = append(s.Params, values...) })
	}
	return s
}

// run is the candidate without its parameters.
func (s *savedCandidate) run() *search.Candidate {
	return &search.Candidate{
		Kind: s.Kind, Rows: s.Rows, Agrees: s.Agrees, Degenerate: s.Degenerate, Ridge: s.Ridge, Contended: s.Contended,
		Run: &optim.Result{X: s.X, Value: s.Value[0], Status: s.Status, Iterations: s.Iterations, Trace: s.Trace},
	}
}

// ofSeveral is the candidate, whose run says all, of a search over so many parameters of several targets.
func (s *savedCandidate) ofSeveral(parameters int) (*search.Candidate, error) {
	if len(s.Value) != 1 || len(s.X) != parameters {
		return nil, Damaged("parameters of another shape")
	}
	c := s.run()
	if !c.Failed() && !numeric.Finite(c.Run.X...) {
		return nil, Damaged("parameters that are not finite")
	}
	return c, nil
}

// candidate is the inverse of saveCandidate, for parameters of the shape of blank.
func (s *savedCandidate) candidate(blank *model.Params) (*search.Candidate, error) {
	p, at := blank.Like(), 0
	p.Each(func(_ model.ParamPart, values []float64) {
		copy(values, s.Params[min(at, len(s.Params)):])
		at += len(values)
	})
	if at != len(s.Params) || len(s.Value) != 1 {
		return nil, Damaged("parameters of another shape")
	}
	c := s.run()
	c.Params = p
	if !c.Failed() && !usable(p) {
		return nil, Damaged("parameters that are not finite, or noise that is not above 0")
	}
	return c, nil
}

// usable says whether a likelihood of finite value can have these parameters.
func usable(p *model.Params) bool {
	sound := true
	p.Each(func(part model.ParamPart, values []float64) {
		sound = sound && numeric.Finite(values...) && (part != model.Noise || len(values) == 0 ||
			slices.Min(values) > 0)
	})
	return sound
}
