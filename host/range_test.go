package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// counting counts the passes over a source.
type counting struct {
	dataset.Source
	passes int
}

func (c *counting) Read(ctx context.Context, fn func(*model.Block) error) error {
	c.passes++
	return c.Source.Read(ctx, fn)
}

func fileOf(t *testing.T, m *fitted.Model) string {
	t.Helper()
	data, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A range is its single fits, in one reading; the least BIC wins, ICL is
// recomputed here row by row, and the eigenvalues of T̂2 say the same k.
func TestFitRange(t *testing.T) {
	testslow.Mark(t)
	ctx, act := context.Background(), activation(t, identity.Family)
	x, y := drawn(t, identity.Family, 3000, 6, 2, 1)
	src := &counting{Source: dataset.Matrix(x, y)}
	cfg := host.Config{Seed: 3}
	m, err := host.FitRange(ctx, act, src, 1, 3, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if src.passes != 1 {
		t.Errorf("the data were read %d times", src.passes)
	}
	if m.K != 2 || m.Fit.EigengapK != 2 || len(m.Fit.Selection) != 3 {
		t.Errorf("k = %d, eigengap %d, %d candidates; want 2, 2, 3", m.K, m.Fit.EigengapK, len(m.Fit.Selection))
	}
	for i, c := range m.Fit.Selection {
		cfg.K = i + 1
		single, err := host.Fit(ctx, act, dataset.Matrix(x, y), cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := fitted.Candidate{K: i + 1, LogLikelihood: single.Fit.LogLikelihood, AIC: single.Fit.AIC, BIC: single.Fit.BIC, ICL: c.ICL, Converged: true}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("k = %d alone (−) and in the range (+):\n%s", i+1, diff)
		}
		// Two orders of summation.
		if icl := c.BIC + 2*entropyOf(single.Params(), x, y); math.Abs(icl-c.ICL) > 1e-9*math.Abs(icl) {
			t.Errorf("k = %d: ICL %v, want %v", i+1, c.ICL, icl)
		}
		if c.K == m.K {
			m.Fit.Selection, m.Fit.EigengapK, m.Fit.AtLeast, m.Fit.KSet = nil, 0, nil, nil
			if fileOf(t, m) != fileOf(t, single) {
				t.Error("the chosen model is not that of its k alone")
			}
		}
	}
}

// entropyOf is −Σ r·log r of the posteriors of identity experts, by definition.
func entropyOf(p *model.Params, x *mat.Dense, y []float64) float64 {
	sum := 0.0
	for i, target := range y {
		r, total := make([]float64, p.K), 0.0
		for e := range p.K {
			z := mat.Dot(mat.NewVecDense(p.D, p.Regressor(e)), x.RowView(i))
			gate := 0.0
			if e < p.Gates() {
				gate = mat.Dot(mat.NewVecDense(p.D, p.Gate(e)), x.RowView(i))
			}
			r[e] = math.Exp(gate - (target-z)*(target-z)/(2*p.Sigma[0]*p.Sigma[0]))
			total += r[e]
		}
		for _, v := range r {
			if v > 0 {
				sum -= v / total * math.Log(v/total)
			}
		}
	}
	return sum
}

// The eigenvalues of T̂2 give the true number in 39 of these 40 samples (n = 1e4,
// d = 10); three misses would be another estimator.
func TestEigengap(t *testing.T) {
	testslow.Mark(t)
	wrong := 0
	act := activation(t, identity.Family)
	for seed := range uint64(10) {
		for k := 1; k <= 4; k++ {
			x, y := drawn(t, identity.Family, 10_000, 10, k, 100+seed)
			m, err := host.FitRange(context.Background(), act, dataset.Matrix(x, y), 1, 1, host.Config{Method: host.Auto{Starts: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if m.Fit.EigengapK != k {
				t.Logf("seed %d: %d experts, the eigenvalues say %d", seed, k, m.Fit.EigengapK)
				wrong++
			}
		}
	}
	if wrong > 2 {
		t.Errorf("%d of 40 wrong", wrong)
	}
}

// A start of the user's is one of the starts; one under which a row has no density is refused with
// the row.
func TestOwnStart(t *testing.T) {
	ctx, act := context.Background(), activation(t, identity.Family)
	x, y := drawn(t, identity.Family, 1000, 5, 2, 2)
	for _, method := range []host.Method{host.Auto{}, host.EM{}} {
		cfg := host.Config{K: 2, Method: method}
		plain, err := host.Fit(ctx, act, dataset.Matrix(x, y), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for name, scale := range map[string]float64{"good": 1, "hopeless": 1e200} {
			start := plain.Params()
			for i := range start.Regressors {
				start.Regressors[i] *= scale
			}
			before := start.Clone()
			cfg.Start = start
			m, err := host.Fit(ctx, act, dataset.Matrix(x, y), cfg)
			if !cmp.Equal(before, start) {
				t.Errorf("%s, %s: the fit has changed the start", method.Name(), name)
			}
			if name == "hopeless" {
				if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || !strings.Contains(bad.Msg, "density of 0 at the start") {
					t.Errorf("%s, %s: %v", method.Name(), name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", method.Name(), name, err)
			}
			if gain := m.Fit.LogLikelihood - plain.Fit.LogLikelihood; gain < -1e-6 {
				t.Errorf("%s, %s: log-likelihood %v below that without the start", method.Name(), name, -gain)
			}
			own := slices.IndexFunc(m.Fit.Starts, func(s fitted.Start) bool { return s.Kind == starts.KindOwn })
			if own < 0 {
				t.Fatalf("%s, %s: no start of kind own", method.Name(), name)
			}
			s := m.Fit.Starts[own]
			if math.IsNaN(s.LogLikelihood) {
				t.Errorf("%s, %s: log-likelihood %v, status %q", method.Name(), name, s.LogLikelihood, s.Status)
			}
			if text := fileOf(t, m); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s, %s: the file has numbers that are not finite", method.Name(), name)
			}
		}
	}
}

// Every start's path ends, to six decimals, at its mean log-likelihood on its
// rows, and EM's never falls.
func TestPaths(t *testing.T) {
	x, y := drawn(t, identity.Family, 1000, 5, 3, 2)
	for _, method := range []host.Method{host.Auto{}, host.EM{}} {
		m, err := host.Fit(context.Background(), activation(t, identity.Family), dataset.Matrix(x, y), host.Config{K: 3, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range m.Fit.Starts {
			if len(s.Path) < 2 {
				t.Errorf("%s: start %d has a path of %d points", method.Name(), i, len(s.Path))
			} else if end := s.Path[len(s.Path)-1]; s.Rows == 1000 && math.Abs(end-s.LogLikelihood/1000) > 1e-6 {
				t.Errorf("%s: start %d ends at %v, its mean log-likelihood is %v", method.Name(), i, end, s.LogLikelihood/1000)
			}
			if method == host.Method(host.EM{}) && !slices.IsSorted(s.Path) {
				t.Errorf("EM's path %v falls", s.Path)
			}
		}
	}
}

// A fit that is taken up at any of its checkpoints, through JSON, ends in the
// same file; one of another request or other data is refused.
func TestResume(t *testing.T) {
	testslow.Mark(t)
	act := activation(t, identity.Family)
	x, y := drawn(t, identity.Family, 400, 8, 4, 5)
	for name, fit := range map[string]func(ctx context.Context, cfg host.Config) (*fitted.Model, error){
		"one k": func(ctx context.Context, cfg host.Config) (*fitted.Model, error) {
			cfg.K = 5
			return host.Fit(ctx, act, dataset.Matrix(x, y), cfg)
		},
		"range": func(ctx context.Context, cfg host.Config) (*fitted.Model, error) {
			return host.FitRange(ctx, act, dataset.Matrix(x, y), 1, 3, cfg)
		},
	} {
		_, kept := host.Resumed(t, host.Config{Seed: 2, Method: host.Auto{Starts: 12}}, fit)
		sigmaOf := func(c *host.Checkpoint) *float64 { // the last number
			numbers := c.Screening.Starts[0].Params
			return &numbers[len(numbers)-1]
		}
		for what, change := range map[string]func(c *host.Checkpoint, cfg *host.Config){
			"seed":    func(_ *host.Checkpoint, cfg *host.Config) { cfg.Seed = 3 },
			"data":    func(c *host.Checkpoint, _ *host.Config) { c.Data = "0" },
			"program": func(c *host.Checkpoint, _ *host.Config) { c.Settings["program"] = "v0" },
			"damaged": func(c *host.Checkpoint, _ *host.Config) { c.Screening.Starts[0].Params = nil },
			"values":  func(c *host.Checkpoint, _ *host.Config) { c.Values = nil },
			// An activation of the same name and version that is another function far
			// out; a checkpoint that a fit with it would go on from.
			"another function": func(c *host.Checkpoint, _ *host.Config) { c.Values.G[len(c.Values.G)-1] *= 1 + 1e-8 },
			// What no checkpoint of ours holds, with a checksum that is right.
			"not finite":  func(c *host.Checkpoint, _ *host.Config) { c.Screening.Starts[0].Params[0] = math.NaN() },
			"not above 0": func(c *host.Checkpoint, _ *host.Config) { *sigmaOf(c) = 0 },
			"above 0":     func(c *host.Checkpoint, _ *host.Config) { *sigmaOf(c) = -1 },
		} {
			c := new(host.Checkpoint)
			if err := json.Unmarshal(kept[0], c); err != nil {
				t.Fatal(err)
			}
			cfg := host.Config{Seed: 2, Method: host.Auto{Starts: 12}, Resume: c}
			change(c, &cfg)
			var refused *checkpoint.Error
			if _, err := fit(t.Context(), cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s, another %s: %v", name, what, err)
			}
		}
	}
}

// A checkpoint that was edited, by no more than a digit, is refused, and so is one
// of the version that had no checksum.
func TestEditedCheckpoints(t *testing.T) {
	testslow.Mark(t)
	act := activation(t, identity.Family)
	x, y := drawn(t, identity.Family, 400, 8, 4, 5)
	var text string
	_, err := host.Fit(context.Background(), act, dataset.Matrix(x, y), host.Config{K: 3, Method: host.Auto{Starts: 4}, Checkpoint: func(save func() (*host.Checkpoint, error)) {
		c, err := save()
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text, "{\n  \"format\": \"moe-checkpoint/v2\",\n") {
		t.Fatalf("a checkpoint begins with %.40q", text)
	}
	if err := json.Unmarshal([]byte(text), new(host.Checkpoint)); err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(`"(x|regressors|sigma|value)": "[^"]{9}`)
	for name, edited := range map[string]string{
		"a number":        numbers.ReplaceAllStringFunc(text, func(s string) string { return s[:len(s)-1] + string(rune(s[len(s)-1])^1) }),
		"a setting":       strings.Replace(text, `"k": "3"`, `"k": "4"`, 1),
		"version 1":       strings.Replace(text, "moe-checkpoint/v2", "moe-checkpoint/v1", 1),
		"no checksum":     strings.Replace(text, `"sha256"`, `"sha255"`, 1),
		"another key":     strings.Replace(text, `"race"`, `"rase"`, 1),
		"an old one":      `{"format": "moe-checkpoint/v1", "settings": {}, "race": {}}`,
		"a model's":       `{"format": "moe-model/v1"}`,
		"nothing":         `{}`,
		"no state at all": `{"format": "moe-checkpoint/v2", "sha256": "` + strings.Repeat("0", 64) + `"}`,
	} {
		if edited == text {
			t.Errorf("%s: the edit changes nothing", name)
		}
		var refused *checkpoint.Error
		if err := json.Unmarshal([]byte(edited), new(host.Checkpoint)); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCheckpoint looks for a checkpoint with a right checksum on which a fit
// panics or ends in anything but a model or a refusal.
func FuzzCheckpoint(f *testing.F) {
	act := activation(f, identity.Family)
	x, y := drawn(f, identity.Family, 120, 3, 2, 5)
	fit := func(cfg host.Config) (*fitted.Model, error) {
		cfg.K, cfg.Threads, cfg.Method = 2, 1, host.Auto{Starts: 8}
		return host.Fit(context.Background(), act, dataset.Matrix(x, y), cfg)
	}
	if _, err := fit(host.Config{Checkpoint: func(save func() (*host.Checkpoint, error)) {
		c, err := save()
		if err != nil {
			f.Fatal(err)
		}
		data, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		var file struct{ State json.RawMessage }
		if err := json.Unmarshal(data, &file); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(file.State))
	}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		var compact bytes.Buffer
		if json.Compact(&compact, state) != nil {
			return
		}
		sum := sha256.Sum256(compact.Bytes())
		file := fmt.Sprintf(`{"format":%q,"sha256":"%x","state":%s}`, checkpoint.Format, sum, compact.Bytes())
		c := new(host.Checkpoint)
		if json.Unmarshal([]byte(file), c) != nil {
			return
		}
		m, err := fit(host.Config{Resume: c})
		if refused := (*checkpoint.Error)(nil); err != nil && !errors.As(err, &refused) {
			t.Errorf("%v (%T)", err, err)
		}
		if err == nil {
			if err := m.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}
