// Package checkpoint keeps where a fit stood, so that it goes on from there to the same bytes; it belongs to one
// request, one table and one version of the program.
package checkpoint

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

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/envelope"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Format is the version of checkpoints that this package writes and reads.
const Format = "moe-checkpoint/v2"

// Checkpoint is where a fit stood after a wave of starts. Everything behind it is
// deterministic: a fit that goes on from it ends in the same model to the last
// bit. It belongs to one data set, one request and one version of the program.
// In JSON it carries a checksum: one that was edited is a [*Error].
type Checkpoint struct {
	Settings map[string]string `json:"settings"`         // the request, and the program
	Data     string            `json:"data"`             // SHA-256 of the numbers as fitted
	Values   *claims.Values    `json:"values"`           // of the activation; of the first, where there are several
	Others   []*claims.Values  `json:"others,omitempty"` // of the others
	K        int               `json:"k"`                // being fitted
	Best     *model.Params     `json:"best"`             // of the starts so far, in the user's units
	// of a range of k or a tree that grows, the fits that are done
	Chosen    *Series   `json:"chosen"`
	Targets   []Target  `json:"targets,omitempty"` // of several, those that are done
	Screening screening `json:"race"`
}

// MarshalJSON implements json.Marshaler.
func (c *Checkpoint) MarshalJSON() ([]byte, error) {
	type plain Checkpoint
	return envelope.Marshal(Format, (*plain)(c))
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Checkpoint) UnmarshalJSON(data []byte) error {
	type plain Checkpoint
	*c = Checkpoint{}
	return envelope.Unmarshal(data, Format, (*plain)(c), func(msg string) error {
		return &Error{msg}
	})
}

// Series is what a range of k or a tree has come to: all fits so far, in the order in which they were made. From and To
// are the least and the most experts.
type Series struct {
	From, To  int
	Grown     bool `json:",omitempty"` // a tree
	Selection []fitted.Candidate
	Model     *fitted.Model   // of trees, the best
	Models    []*fitted.Model `json:",omitempty"` // of a range, of each fit
}

// Whole says whether it has all that it says.
func (s *Series) Whole() bool {
	if s == nil || s.Grown {
		return s != nil && (len(s.Selection) == 0 || s.Model != nil && s.Model.Validate() == nil)
	}
	return len(s.Models) == len(s.Selection) && !slices.ContainsFunc(s.Models,
		func(m *fitted.Model) bool { return m == nil || m.Validate() != nil })
}

// Target is the fit of a target of several that is done.
type Target struct {
	Data  string        `json:"data"` // SHA-256 of the numbers as fitted
	Model *fitted.Model `json:"model"`
}

// Error is a checkpoint that a fit cannot go on from: another
// request's, or damaged.
type Error struct{ Msg string }

func (e *Error) Error() string { return e.Msg }

// Damaged is a checkpoint that no fit has written.
func Damaged(what string) error { return &Error{"the checkpoint is damaged: " + what} }

// Fit is what a checkpoint belongs to.
type Fit struct {
	Settings map[string]string      // what the outcome depends on besides the data
	Data     func() (string, error) // the [Hash] of the rows
	Values   []*claims.Values       // of the activations
	Series   *Series                // what a range of k or a tree has come to; nil of one fit
}

// Save writes down where a search for p stands.
func (f Fit) Save(p *problem.Problem, s search.State) (*Checkpoint, error) {
	data, err := f.Data()
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Settings: f.Settings, Data: data, Values: f.Values[0], Others: f.Values[1:], K: p.Shape.K,
		Chosen: f.Series, Screening: screening{Least: s.Least, Done: s.Done}}
	for _, candidate := range s.Candidates {
		c.Screening.Starts = append(c.Screening.Starts, saveCandidate(candidate))
	}
	if best := s.Candidates[0]; !best.Failed() && best.Params != nil {
		c.Best = p.Units.OutOf(best.Params)
	}
	return c, nil
}

// Admit refuses a checkpoint of another fit than f: it compares the request, the data and the activations of p.
func (f Fit) Admit(ctx context.Context, c *Checkpoint, p *problem.Problem) error {
	for _, key := range slices.Sorted(maps.Keys(f.Settings)) {
		if was, is := c.Settings[key], f.Settings[key]; was != is {
			return &Error{fmt.Sprintf("the checkpoint is of another fit: %s was %s and is %s; repeat the "+
				"request, or start anew without it", key, was, is)}
		}
	}
	data, err := f.Data()
	if err != nil {
		return err
	}
	if c.Data != data {
		return &Error{"the checkpoint is of other data; start anew without it"}
	}
	values := append([]*claims.Values{c.Values}, c.Others...)
	for i, g := range p.Activations() {
		if i >= len(values) || values[i] == nil || values[i].Validate() != nil {
			return Damaged("it has no values of its activation")
		}
		err = values[i].Compare(ctx, g)
		if differ := (*claims.DifferenceError)(nil); errors.As(err, &differ) {
			return &Error{fmt.Sprintf("the checkpoint is of another fit: its activation %s is another "+
				"function than the one of that name here: %v; start anew without it", g.Info().Name, differ)}
		}
		if err != nil {
			return err
		}
	}
	return nil
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

// Hash is the SHA-256 of the data as they are fitted: of the CRC-32C of each block's
// features, target and weights, so that the pass over rows in a file costs little.
func Hash(rows model.Rows, threads int) (string, error) {
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

// Of returns the targets that a checkpoint of a fit of several has done, by their names, the features of all and the
// hashes of their rows; none of no checkpoint.
func (c *Checkpoint) Of(targets, features, digests []string) ([]Target, error) {
	if c == nil {
		return nil, nil
	}
	done := c.Targets
	if len(done) < len(targets) {
		next, err := json.Marshal(targets[len(done)]) // as settings have it
		if err != nil {
			return nil, err
		}
		if c.Settings["target"] != string(next) {
			targets = nil
		}
	}
	if len(done) >= len(targets) {
		return nil, &Error{"the checkpoint is of a fit of other targets; repeat the request, or start anew without it"}
	}
	for j, d := range done {
		if d.Model == nil || d.Model.Validate() != nil || d.Model.Target != targets[j] ||
			!slices.Equal(d.Model.Features, features) {
			return nil, Damaged("what it says of the targets that are done is not what was asked for")
		}
		if digests[j] != d.Data {
			return nil, &Error{"the checkpoint is of other data; start anew without it"}
		}
	}
	return done, nil
}
