package gru

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestWrite: a layer that numpy wrote and computed the states of goes through both libraries' names
// and comes back with the same weights, in the same bytes each time.
func TestWrite(t *testing.T) {
	l, err := Read(filepath.Join("testdata", "torch.npz"), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range Libraries() {
		var first, second bytes.Buffer
		if err := Write(&first, l, library); err != nil {
			t.Fatal(err)
		}
		if err := Write(&second, l, library); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: other bytes the second time", library)
		}
		path := filepath.Join(t.TempDir(), "layer.npz")
		if err := os.WriteFile(path, first.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		back, err := Read(path, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[Library]string{Torch: "weight_ih_l0", Keras: "kernel"}[library]; back.Name != want {
			t.Errorf("%s: the layer is called %s", library, back.Name)
		}
		same(t, back, l, 0)
	}
}

// TestRecord: rows go on where the one before ended; what is left of a state after the layer's own
// step is the noise, or where the noise is the record's own, that of two states. More steps begin with the same.
func TestRecord(t *testing.T) {
	l := random(rand.New(rand.NewPCG(5, 6)), ResetAfter, 2, 3)
	const steps, sigma = 4000, 0.1
	record := func(r Recording) (rows [][]float64) {
		err := Record(context.Background(), l, r, func(row []float64) error {
			rows = append(rows, append([]float64(nil), row...))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, observed := range []bool{false, true} {
		rows := record(Recording{Steps: steps, Sigma: sigma, Gates: Binary, Observed: observed})
		step, next := l.NewStepper(Binary), make([]float64, 3)
		clean := make([]float64, 3)
		var square float64
		for i, row := range rows {
			for j := range 3 {
				if i > 0 && row[2+j] != rows[i-1][5+j] {
					t.Fatalf("observed %v: row %d does not go on", observed, i)
				}
			}
			from := row[2:5]
			if observed {
				from = clean
			}
			step.Next(next, row[:2], from)
			copy(clean, next)
			for j := range 3 {
				square += math.Pow(row[5+j]-next[j], 2)
			}
		}
		// Four standard errors of a variance of 12,000 values.
		n := float64(3 * steps)
		if v := square / n / (sigma * sigma); math.Abs(v-1) > 4*math.Sqrt(2/n) {
			t.Errorf("observed %v: noise of variance %.3g times what was asked for", observed, v)
		}
		short := record(Recording{Steps: 10, Sigma: sigma, Gates: Binary, Observed: observed})
		other := record(Recording{Steps: 10, Sigma: sigma, Gates: Binary, Observed: observed, Number: 1})
		for i := range short {
			if short[i][7] != rows[i][7] || short[i][0] == other[i][0] {
				t.Errorf("row %d: shorter records differ, or other ones do not", i)
			}
		}
	}
}

// TestRecovered: a layer against itself and against one with a gate moved.
func TestRecovered(t *testing.T) {
	l := random(rand.New(rand.NewPCG(7, 8)), ResetAfter, 2, 3)
	units := func() (out []*Unit) {
		for j := range 3 {
			p := l.Unit(j)
			p.Tree = Shape
			u, err := Match(Estimates{Params: p, Keeps: true}, j, 2)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, u)
		}
		return out
	}
	compare := func(u []*Unit) *Recovery {
		r, err := Recovered(context.Background(), l, u, Recording{Steps: 2000, Sigma: 0.1, Gates: Binary}, 500)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := compare(units())
	if r.W > 1e-15 || r.U > 1e-15 || r.Update.Differ+r.Reset.Differ > 0 || r.Free.Largest > 1e-9 || r.Free.Parted != 0 ||
		r.Update.Decisions != 6000 || r.Update.Angle > 1e-6 {
		t.Errorf("against itself: %+v", r)
	}
	moved := units()
	moved[1].Update.W[0] += 0.5
	moved[2].Candidate.U[0] += 0.25
	r = compare(moved)
	var norm float64
	for _, v := range l.Candidate.U.RawMatrix().Data {
		norm += v * v
	}
	if math.Abs(r.U-0.25/math.Sqrt(norm)) > 1e-12 || r.W > 1e-15 || r.Update.Differ == 0 || r.Reset.Differ > 0 ||
		r.Update.Angle < 1 || r.Free.Parted == 0 || r.Free.Apart == 0 {
		t.Errorf("against one that was moved: %+v", r)
	}
}
