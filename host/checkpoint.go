package host

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// CheckpointFormat is the version of checkpoints that this package writes and
// reads.
const CheckpointFormat = "moe-checkpoint/v1"

// Checkpoint is where a fit stood after a wave of starts. Everything behind it is
// deterministic: a fit that goes on from it ends in the same model to the last
// bit. It belongs to one data set, one request and one version of the program.
type Checkpoint struct {
	Format   string            `json:"format"`
	Settings map[string]string `json:"settings"` // the request, and the program
	Data     string            `json:"data"`     // SHA-256 of the numbers as fitted
	K        int               `json:"k"`        // being fitted
	Best     *model.Params     `json:"best"`     // of the starts so far, in the user's units
	Chosen   *chosen           `json:"chosen"`   // of a range of k, the fits that are done
	Race     progress          `json:"race"`
}

// progress is the state of the race.
type progress struct {
	Least  int     `json:"least"`  // starts to run before it may end
	Done   bool    `json:"done"`   // what follows is the refinement on all rows
	Starts []start `json:"starts"` // best first
}

// start is a climber. Its numbers may be infinite where it failed.
type start struct {
	Kind       string       `json:"kind"`
	Status     optim.Status `json:"status"`
	Iterations int          `json:"iterations"`
	Rows       int          `json:"rows"`
	Agrees     bool         `json:"agrees"`
	Shrunk     bool         `json:"shrunk"`
	Value      exact        `json:"value"`
	X          exact        `json:"x"`
	Trace      exact        `json:"trace"`

	Regressors          exact `json:"regressors"`
	Gating              exact `json:"gating"`
	RegressorIntercepts exact `json:"regressor_intercepts"`
	GatingIntercepts    exact `json:"gating_intercepts"`
	Sigma               exact `json:"sigma"`
}

// exact are numbers of any kind, also infinite ones, to the last bit: base64 of
// little-endian float64 in JSON, null for nil.
type exact []float64

// MarshalJSON implements json.Marshaler.
func (e exact) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	b := make([]byte, 0, 8*len(e))
	for _, v := range e {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return json.Marshal(b)
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
	*e = make(exact, 0, len(b)/8)
	for ; len(b) > 0; b = b[8:] {
		*e = append(*e, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return nil
}

// CheckpointError is a checkpoint that a fit cannot go on from: another
// request's, or damaged.
type CheckpointError struct{ Msg string }

func (e *CheckpointError) Error() string { return e.Msg }

// checkpoint offers the state of the race to whoever wants to keep it.
func (f *fit) checkpoint(all []*climber, least int, done bool) {
	if f.cfg.Checkpoint == nil {
		return
	}
	kept := make([]climber, len(all)) // the race goes on to change its own
	for i, c := range all {
		kept[i] = *c
	}
	var before *chosen
	if f.before != nil {
		before = &chosen{From: f.before.From, To: f.before.To, Selection: slices.Clone(f.before.Selection), Model: f.before.Model}
	}
	f.cfg.Checkpoint(func() (*Checkpoint, error) {
		settings, err := f.settings()
		if err != nil {
			return nil, err
		}
		c := &Checkpoint{
			Format: CheckpointFormat, Settings: settings, Data: f.hash(), K: f.cfg.K, Chosen: before,
			Race: progress{Least: least, Done: done},
		}
		for i := range kept {
			c.Race.Starts = append(c.Race.Starts, startFrom(&kept[i]))
		}
		if best := &kept[0]; !best.failed() {
			c.Best = f.units.outOf(best.params)
		}
		return c, nil
	})
}

func startFrom(c *climber) start {
	p := c.params
	return start{
		Kind: c.kind, Status: c.run.Status, Iterations: c.run.Iterations, Rows: c.rows, Agrees: c.agrees, Shrunk: c.shrunk,
		Value: exact{c.run.Value}, X: c.run.X, Trace: c.run.Trace,
		Regressors: p.Regressors, Gating: p.Gating, RegressorIntercepts: p.RegressorIntercepts, GatingIntercepts: p.GatingIntercepts, Sigma: p.Sigma,
	}
}

// climber is the inverse of startFrom, for parameters of the shape of blank.
func (s *start) climber(blank *model.Params) (*climber, error) {
	p := &model.Params{
		K: blank.K, D: blank.D, Regressors: s.Regressors, Gating: s.Gating,
		RegressorIntercepts: s.RegressorIntercepts, GatingIntercepts: s.GatingIntercepts, Sigma: s.Sigma,
	}
	same := func(a, b []float64) bool { return len(a) == len(b) && (a == nil) == (b == nil) }
	if !same(p.Regressors, blank.Regressors) || len(p.Gating) != len(blank.Gating) || !same(p.Sigma, blank.Sigma) ||
		!same(p.RegressorIntercepts, blank.RegressorIntercepts) || len(p.GatingIntercepts) != len(blank.GatingIntercepts) || len(s.Value) != 1 {
		return nil, &CheckpointError{"the checkpoint is damaged: parameters of another shape"}
	}
	return &climber{
		kind: s.Kind, rows: s.Rows, agrees: s.Agrees, shrunk: s.Shrunk, params: p,
		run: &optim.Result{X: s.X, Value: s.Value[0], Status: s.Status, Iterations: s.Iterations, Trace: s.Trace},
	}, nil
}

// resume takes over cfg.Resume, if it is about this number of experts.
func (f *fit) resume() error {
	c := f.cfg.Resume
	if c == nil || c.K != f.cfg.K && f.before != nil {
		return nil
	}
	f.resumed = &c.Race
	if f.before != nil { // a range has admitted it
		return nil
	}
	return f.admit(c)
}

// resumeRange takes over what a range had come to.
func (f *fit) resumeRange() error {
	c := f.cfg.Resume
	if c == nil {
		return nil
	}
	if err := f.admit(c); err != nil {
		return err
	}
	if s := c.Chosen; s == nil || s.From+len(s.Selection) != c.K || len(s.Selection) > 0 && s.Model == nil {
		return &CheckpointError{"the checkpoint is damaged: it does not tell what the range of k has come to"}
	}
	f.before = c.Chosen
	return nil
}

// admit compares a checkpoint with the fit.
func (f *fit) admit(c *Checkpoint) error {
	if c.Format != CheckpointFormat {
		return &CheckpointError{fmt.Sprintf("the checkpoint's format is %q, want %q", c.Format, CheckpointFormat)}
	}
	settings, err := f.settings()
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if was, is := c.Settings[key], settings[key]; was != is {
			return &CheckpointError{fmt.Sprintf("the checkpoint is of another fit: %s was %s and is %s; repeat the request, or start anew without it", key, was, is)}
		}
	}
	if c.Data != f.hash() {
		return &CheckpointError{"the checkpoint is of other data; start anew without it"}
	}
	return nil
}

// resumedRace returns the race as the checkpoint left it; a new one where there
// is none. From a checkpoint one goes on once.
func (f *fit) resumedRace() (all []*climber, least int, done bool, err error) {
	p := f.resumed
	f.resumed = nil
	if p == nil {
		return nil, 0, false, nil
	}
	for i := range p.Starts {
		c, err := p.Starts[i].climber(f.blank(1))
		if err != nil {
			return nil, 0, false, err
		}
		all = append(all, c)
	}
	if p.Done && len(all) == 0 {
		return nil, 0, false, &CheckpointError{"the checkpoint is damaged: it has no starts"}
	}
	return all, p.Least, p.Done, nil
}

// settings are what the outcome depends on besides the data.
func (f *fit) settings() (map[string]string, error) {
	c := f.request
	k := fmt.Sprint(c.K)
	if f.before != nil {
		k = fmt.Sprintf("%d:%d", f.before.From, f.before.To)
	}
	out := map[string]string{"k": k, "program": program()}
	for key, v := range map[string]any{
		"activation": fitted.ActivationOf(f.sdk.Info()), "method": c.Method, "sigma": c.Sigma, "mu": c.Mu, "starts": c.Starts,
		"seed": c.Seed, "intercept": c.Intercept, "gate": c.Gate, "noise": c.Noise, "robust": c.Robust, "approximate": c.Approximate,
		"features": f.schema.Features, "target": f.schema.Target, "weights": f.schema.Weights,
		"expert features": c.ExpertFeatures, "gate features": c.GateFeatures, "start": c.Start, "truth": c.Truth,
	} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}

// program names the build as far as it decides about digits.
func program() string {
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

// hash is the SHA-256 of the data as they are fitted.
func (f *fit) hash() string {
	sum := sha256.New()
	buf := make([]byte, 0, 8*model.BlockRows)
	for i := range f.data.Blocks {
		b := &f.data.Blocks[i]
		for _, values := range [][]float64{b.X, b.Y, b.W} {
			for part := range slices.Chunk(values, model.BlockRows) {
				buf = buf[:0]
				for _, v := range part {
					buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v))
				}
				sum.Write(buf)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
