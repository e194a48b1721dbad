package states

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/internal/envelope"
	"github.com/gatedlearning/moe/internal/numeric"
)

// CheckpointFormat is the version of checkpoints that this package writes and reads.
const CheckpointFormat = "moe-gru-checkpoint/v1"

// Checkpoint is where the learning of a layer stood: the fits of every unit that are made, and
// where the one after them was. A run that goes on from it ends in the same layer to the last bit. In
// JSON it carries a checksum: one that was edited is a [*checkpoint.Error].
type Checkpoint struct {
	Settings map[string]string `json:"settings"`
	Data     string            `json:"data"` // SHA-256 of the rows
	Units    []unitState       `json:"units"`
}

// unitState is where a unit stands.
type unitState struct {
	Fits []*attempt       `json:"fits"`
	At   *host.Checkpoint `json:"at"` // of the next fit; null at its begin
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
		return &checkpoint.Error{Msg: msg}
	})
}

func refused(format string, args ...any) error {
	return &checkpoint.Error{Msg: fmt.Sprintf(format, args...)}
}

// settings are what the outcome depends on besides the rows.
func (r *run) settings() map[string]string {
	return map[string]string{"hidden": fmt.Sprint(r.hidden), "hac": fmt.Sprint(r.HAC), "starts": fmt.Sprint(r.Starts),
		"seed": fmt.Sprint(r.Seed), "program": checkpoint.Program()}
}

// sum is the SHA-256 of the rows, as the table has them.
func (t *table) sum() string {
	sum := sha256.New()
	var buf []byte
	for i := range t.n {
		buf = numeric.AppendFloats(buf[:0], t.x.RawRowView(i))
		for _, column := range t.next {
			buf = numeric.AppendFloats(buf, column[i:i+1])
		}
		sum.Write(buf)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// checkpoint writes down where the units stand.
func (r *run) checkpoint() (*Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &Checkpoint{Settings: r.settings(), Data: r.data(), Units: make([]unitState, len(r.units))}
	for j, u := range r.units {
		c.Units[j] = unitState{Fits: u.fits, At: u.from}
		if u.save == nil {
			continue
		}
		var err error
		if c.Units[j].At, err = u.save(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// resume takes up where a checkpoint stands.
func (r *run) resume() error {
	c := r.Resume
	if c == nil {
		return nil
	}
	settings := r.settings()
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if was, is := c.Settings[key], settings[key]; was != is {
			return refused("the checkpoint is of another run: %s was %s and is %s; repeat the request, or start anew "+
				"without it", key, was, is)
		}
	}
	if c.Data != r.data() {
		return refused("the checkpoint is of other data; start anew without it")
	}
	if len(c.Units) != len(r.units) {
		return refused("the checkpoint is damaged: it has %d units of %d", len(c.Units), len(r.units))
	}
	for j, u := range r.units {
		for _, a := range c.Units[j].Fits {
			if a == nil || a.Model == nil || a.Model.Validate() != nil {
				return refused("the checkpoint is damaged: a fit of unit %d is none", j+1)
			}
		}
		u.fits, u.from = c.Units[j].Fits, c.Units[j].At
	}
	return nil
}
