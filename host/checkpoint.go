package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/envelope"
	"github.com/gatedlearning/moe/internal/numeric"
)

// CheckpointFormat is the version of checkpoints that this package writes and
// reads.
const CheckpointFormat = "moe-checkpoint/v2"

// Checkpoint is where a fit stood after a wave of starts. Everything behind it is
// deterministic: a fit that goes on from it ends in the same model to the last
// bit. It belongs to one data set, one request and one version of the program.
// In JSON it carries a checksum: one that was edited is a [*CheckpointError].
type Checkpoint struct {
	Settings map[string]string `json:"settings"`         // the request, and the program
	Data     string            `json:"data"`             // SHA-256 of the numbers as fitted
	Values   *claims.Values    `json:"values"`           // of the activation; of the first, where there are several
	Others   []*claims.Values  `json:"others,omitempty"` // of the others
	K        int               `json:"k"`                // being fitted
	Best     *model.Params     `json:"best"`             // of the starts so far, in the user's units
	// of a range of k or a tree that grows, the fits that are done
	Chosen    *chosen      `json:"chosen"`
	Targets   []doneTarget `json:"targets,omitempty"` // of several, those that are done
	Screening screening    `json:"race"`
}

// MarshalJSON implements json.Marshaler.
func (c *Checkpoint) MarshalJSON() ([]byte, error) {
	type plain Checkpoint
	return envelope.Marshal(CheckpointFormat, (*plain)(c))
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Checkpoint) UnmarshalJSON(data []byte) error {
	type plain Checkpoint
	*c = Checkpoint{}
	return envelope.Unmarshal(data, CheckpointFormat, (*plain)(c), func(msg string) error {
		return &CheckpointError{msg}
	})
}

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

// CheckpointError is a checkpoint that a fit cannot go on from: another
// request's, or damaged.
type CheckpointError struct{ Msg string }

func (e *CheckpointError) Error() string { return e.Msg }

func damaged(what string) error { return &CheckpointError{"the checkpoint is damaged: " + what} }

// request is what was asked for: the configuration as it came, and how far a
// range of k has come where there is one.
type request struct {
	Config
	chosen chosen // From is 0 where there is one fit
	// of the activations, taken before the search: a checkpoint is written when they may be gone
	values []*claims.Values
	data   func() (string, error) // the hash of the rows, made once
	given  *atomic.Bool           // a checkpoint has been offered
	more   map[string]any         // settings besides, or in the place of those of one target

	parameters int // of several targets under one gate; 0 for one target
}

// leave sees to it that a checkpoint can be written when the rows' file is closed: that
// of an interrupted fit is.
func (r request) leave(ctx context.Context) {
	if ctx.Err() != nil && r.given.Load() {
		r.data()
	}
}

// requested is a request for a fit of p.
func (c Config) requested(ctx context.Context, p *problem.Problem) (request, error) {
	r := request{Config: c, given: new(atomic.Bool)}
	r.data = sync.OnceValues(func() (string, error) { return hash(p.Rows, p.Threads) })
	for _, g := range p.Activations() {
		values, err := claims.ValuesOf(ctx, g)
		if err != nil {
			return r, err
		}
		r.values = append(r.values, values)
	}
	return r, nil
}

// started is the run of c, of one number of experts, for a request: with the
// state that a checkpoint is resumed from, and the way to write the next.
func (c Config) started(ctx context.Context, p *problem.Problem, asked request) (run, error) {
	r := run{Config: c}
	if c.Checkpoint != nil {
		r.checkpoint = func(p *problem.Problem, s search.State) {
			asked.given.Store(true)
			c.Checkpoint(func() (*Checkpoint, error) { return asked.checkpoint(p, s) })
		}
	}
	from := c.Resume
	if from == nil {
		return r, nil
	}
	if asked.chosen.From == 0 { // a series has admitted it
		if err := asked.admit(ctx, from, p); err != nil {
			return r, err
		}
	} else if len(from.Chosen.Selection) != len(asked.chosen.Selection) {
		return r, nil
	}
	var err error
	r.resume, err = from.Screening.state(func(s *savedCandidate) (*search.Candidate, error) {
		if asked.parameters > 0 {
			return s.ofSeveral(asked.parameters)
		}
		return s.candidate(p.Shape.Blank(1))
	})
	return r, err
}

// resumed is what a series had come to.
func (r request) resumed(ctx context.Context, p *problem.Problem) (chosen, error) {
	c, done := r.Config, r.chosen
	if c.Resume == nil {
		return done, nil
	}
	if err := r.admit(ctx, c.Resume, p); err != nil {
		return done, err
	}
	if !c.Resume.Chosen.whole() {
		return done, damaged("it does not say how far the range of k had come")
	}
	return *c.Resume.Chosen, nil
}

// checkpoint writes down where a search stands.
func (r request) checkpoint(p *problem.Problem, s search.State) (*Checkpoint, error) {
	settings, err := r.settings(p)
	if err != nil {
		return nil, err
	}
	data, err := r.data()
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Settings: settings, Data: data, Values: r.values[0], Others: r.values[1:], K: p.Shape.K,
		Screening: screening{Least: s.Least, Done: s.Done}}
	if r.chosen.From > 0 {
		c.Chosen = &r.chosen
	}
	for _, candidate := range s.Candidates {
		c.Screening.Starts = append(c.Screening.Starts, saveCandidate(candidate))
	}
	if best := s.Candidates[0]; !best.Failed() && best.Params != nil {
		c.Best = p.Units.OutOf(best.Params)
	}
	return c, nil
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
		return nil, damaged("parameters of another shape")
	}
	c := s.run()
	if !c.Failed() && !numeric.Finite(c.Run.X...) {
		return nil, damaged("parameters that are not finite")
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
		return nil, damaged("parameters of another shape")
	}
	c := s.run()
	c.Params = p
	if !c.Failed() && !usable(p) {
		return nil, damaged("parameters that are not finite, or noise that is not above 0")
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
		return out, damaged("it has no starts")
	}
	return out, nil
}

// admit compares a checkpoint with the request, the data and the activation.
func (r request) admit(ctx context.Context, c *Checkpoint, p *problem.Problem) error {
	settings, err := r.settings(p)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if was, is := c.Settings[key], settings[key]; was != is {
			return &CheckpointError{fmt.Sprintf("the checkpoint is of another fit: %s was %s and is %s; repeat the "+
				"request, or start anew without it", key, was, is)}
		}
	}
	data, err := r.data()
	if err != nil {
		return err
	}
	if c.Data != data {
		return &CheckpointError{"the checkpoint is of other data; start anew without it"}
	}
	values := append([]*claims.Values{c.Values}, c.Others...)
	for i, g := range p.Activations() {
		if i >= len(values) || values[i] == nil || values[i].Validate() != nil {
			return damaged("it has no values of its activation")
		}
		err = values[i].Compare(ctx, g)
		if differ := (*claims.DifferenceError)(nil); errors.As(err, &differ) {
			return &CheckpointError{fmt.Sprintf("the checkpoint is of another fit: its activation %s is another "+
				"function than the one of that name here: %v; start anew without it", g.Info().Name, differ)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settings are what the outcome depends on besides the data.
func (r request) settings(p *problem.Problem) (map[string]string, error) {
	c := r.Config
	k := fmt.Sprint(c.K)
	if r.chosen.From > 0 {
		k = fmt.Sprintf("%d:%d", r.chosen.From, r.chosen.To)
	}
	out := map[string]string{"k": k, "program": Program()}
	var names []stated.Activation
	for _, g := range c.activations(p.Activation) {
		names = append(names, stated.Of(g.Info()))
	}
	values := map[string]any{
		"activation": names[0], "method": c.Method.Name(), "transform": c.Transform,
		"seed": c.Seed, "intercept": []bool{p.Shape.Intercept, p.Shape.GateIntercept}, "gate": c.Gate.Name(),
		"noise": c.Noise.Name(), "sigma": p.Shape.Sigma,
		"robust": c.wants(Robust), "hac": c.wants(Dependent), "arrangements": c.Arrangements,
		"approximate": c.Approximate,
		"features":    p.Schema.Features, "target": p.Schema.Target, "roles": p.Schema.Roles,
		"expert features": c.ExpertFeatures, "design": c.Design, "start": c.Start, "truth": c.Truth,
	}
	if !c.Inputs.Gaussian() {
		values["inputs"] = c.Inputs
	}
	if r.chosen.Grown {
		values["hierarchy"] = "auto"
	} else if p.Shape.Tree.Depth() > 1 {
		values["hierarchy"] = p.Shape.Tree.String()
	}
	if len(names) > 1 {
		values["leaves"] = names
	}
	if c.Tied != nil {
		values["tied"] = c.Tied
	}
	if c.Output != "" {
		values["output scale"] = c.Output
	}
	if p.Schema.Scale != "" {
		values["target scale"] = p.Schema.Scale
	}
	if p.Shape.Family != "" {
		values["density"] = p.Shape.Family
	}
	if p.Shape.Zero {
		values["zero expert"] = true
	}
	if g, ok := c.Gate.(Softmax); ok {
		values["gate features"] = g.Features
	}
	if Takes(c.Method, OptCheckpoints) {
		m := c.Method.(Auto)
		values["mu"], values["starts"] = m.Mu, m.starts()
	}
	maps.Copy(values, r.more)
	for key, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}

// Program names the build as far as it decides about digits.
func Program() string {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value
			}
		}
	}
	return version + " " + runtime.GOARCH
}

// hash is the SHA-256 of the data as they are fitted: of the CRC-32C of each block's
// features, target and weights, so that the pass over rows in a file costs little.
func hash(rows model.Rows, threads int) (string, error) {
	sums := make([]byte, 4*model.Blocks(rows))
	room := make([][]byte, model.Workers(threads))
	table := crc32.MakeTable(crc32.Castagnoli)
	err := model.Each(context.Background(), rows, len(room), func(worker, _, block int, b *model.Block) error {
		buf := room[worker][:0]
		for values := range b.Values() {
			buf = numeric.AppendFloats(buf, values)
		}
		room[worker] = buf
		binary.LittleEndian.PutUint32(sums[4*block:], crc32.Checksum(buf, table))
		return nil
	})
	sum := sha256.Sum256(sums)
	return hex.EncodeToString(sum[:]), err
}
