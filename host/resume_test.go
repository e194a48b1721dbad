package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/fitted"
)

// checkpointText is a checkpoint as its file has it.
func checkpointText(t *testing.T, save func() (*Checkpoint, error)) []byte {
	t.Helper()
	c, err := save()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Resumed fits with cfg and holds that the fit, taken up at any of its checkpoints, through
// JSON and with other numbers of threads, comes to the next one, byte for byte, and from
// the last to the same model: from any of them it ends there. It returns the model and
// the checkpoints.
func Resumed(t *testing.T, cfg Config, fit func(ctx context.Context, cfg Config) (*fitted.Model, error)) (whole *fitted.Model, kept [][]byte) {
	t.Helper()
	cfg.Checkpoint = func(save func() (*Checkpoint, error)) { kept = append(kept, checkpointText(t, save)) }
	whole, err := fit(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	model, err := whole.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) < 2 {
		t.Fatalf("%d checkpoints", len(kept))
	}
	for i, data := range kept {
		cfg.Resume, cfg.Threads = new(Checkpoint), 1+i%3
		if err := json.Unmarshal(data, cfg.Resume); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var got []byte
		cfg.Checkpoint = func(save func() (*Checkpoint, error)) {
			if got == nil {
				got = checkpointText(t, save)
			}
			end()
		}
		m, err := fit(ctx, cfg)
		want := model
		if i+1 < len(kept) {
			want = kept[i+1]
			if !errors.Is(err, context.Canceled) {
				t.Errorf("from checkpoint %d of %d the fit ends before the next, error %v", i+1, len(kept), err)
			}
		} else if err != nil {
			t.Errorf("from the last of %d checkpoints: %v", len(kept), err)
		} else if got, err = m.JSON(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("from checkpoint %d of %d to another end:\n%s", i+1, len(kept), cmp.Diff(string(want), string(got)))
		}
	}
	return whole, kept
}
