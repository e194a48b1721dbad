package wire

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/gatedlearning/moe/internal/numeric"
	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/sdk"
)

// newScaled is c·z² for c in [1, 10]. The moments and the system of its
// wrappers hold a different number in each place, so that a mixed-up field is
// seen.
func newScaled(p sdk.Params) sdk.Func {
	c := p["c"]
	return sdk.Func{
		Name: "scaled", Version: "v2", Params: p, Kinks: []float64{-1, 0.5},
		G:  func(z float64) float64 { return c * z * z },
		DG: func(z float64) float64 { return 2 * c * z },
	}
}

type withMoments struct{ sdk.Func }

func (withMoments) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			m.Value[p][q] = float64(10*p + q)
			m.Error[p][q] = float64(10*p+q) * 1e-16
		}
	}
	return m, nil
}

type withSystem struct{ sdk.Func }

func (withSystem) System(_ context.Context, sigma float64) (sdk.System, error) {
	return sdk.System{
		Sigma:  sigma,
		Matrix: [3][3]float64{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}},
		RHS:    [3]float64{10, 11, 12},
		C4:     [4]float64{13, 14, 15, 16},
		Delta:  [2]float64{17, 18},
		C2:     [2]float64{19, 20},
		Cubic: sdk.CubicSystem{
			Matrix: [2][2]float64{{21, 22}, {23, 24}},
			RHS:    [2]float64{25, 26},
			C3:     [3]float64{27, 28, 29},
		},
	}, nil
}

type withBoth struct {
	withMoments
	system withSystem
}

func (b withBoth) System(ctx context.Context, sigma float64) (sdk.System, error) {
	return b.system.System(ctx, sigma)
}

func family(wrap func(sdk.Func) sdk.Activation) sdk.Family {
	return sdk.Family{
		Name: "scaled", Version: "v2", Doc: "c·z²",
		Params: []sdk.Param{{Name: "c", Doc: "scale", Default: 3, Min: 1, Max: 10}},
		New:    func(p sdk.Params) (sdk.Activation, error) { return wrap(newScaled(p)), nil },
	}
}

func plain(f sdk.Func) sdk.Activation { return f }

func loop(t *testing.T, f sdk.Family) *Client {
	t.Helper()
	c, stop, err := Loopback(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

func TestDescription(t *testing.T) {
	ctx := t.Context()
	f, err := loop(t, family(plain)).Describe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "scaled" || f.Version != "v2" || f.Doc != "c·z²" || len(f.Params) != 1 ||
		f.Params[0] != (sdk.Param{Name: "c", Doc: "scale", Default: 3, Min: 1, Max: 10}) {
		t.Errorf("family %+v", f)
	}
	act, err := f.Activation(sdk.Params{"c": 7})
	if err != nil {
		t.Fatal(err)
	}
	info := act.Info()
	if info.Name != "scaled" || info.Version != "v2" || info.Params["c"] != 7 ||
		len(info.Kinks) != 2 || info.Kinks[0] != -1 || info.Kinks[1] != 0.5 {
		t.Errorf("info %+v", info)
	}
}

func TestCapabilities(t *testing.T) {
	ctx := t.Context()
	for _, tc := range []struct {
		name string
		wrap func(sdk.Func) sdk.Activation
		want Capabilities
	}{
		{"none", plain, Capabilities{}},
		{"moments", func(f sdk.Func) sdk.Activation { return withMoments{f} }, Capabilities{Moments: true}},
		{"system", func(f sdk.Func) sdk.Activation { return withSystem{f} }, Capabilities{System: true}},
		{"both", func(f sdk.Func) sdk.Activation { return withBoth{withMoments{f}, withSystem{f}} }, Capabilities{true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			act, err := loop(t, family(tc.wrap)).Activation(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, hasMoments := act.(sdk.MomentsProvider)
			s, hasSystem := act.(sdk.SystemProvider)
			if got := (Capabilities{hasMoments, hasSystem}); got != tc.want {
				t.Fatalf("capabilities %+v, want %+v", got, tc.want)
			}
			if hasMoments {
				want, _ := withMoments{}.Moments(ctx)
				if got, err := m.Moments(ctx); err != nil || got != want {
					t.Errorf("moments %v, %v", got, err)
				}
			}
			if hasSystem {
				want, _ := withSystem{}.System(ctx, 0.3)
				if got, err := s.System(ctx, 0.3); err != nil || got != want {
					t.Errorf("system %+v, %v, want %+v", got, err, want)
				}
			}
		})
	}
}

// TestChunks sends batches around the size of a message; g is not linear, so a
// value in the wrong place is seen.
func TestChunks(t *testing.T) {
	ctx := t.Context()
	act, err := loop(t, family(plain)).Activation(ctx, sdk.Params{"c": 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, Chunk - 1, Chunk, Chunk + 1, 3*Chunk + 17} {
		z, dst := make([]float64, n), make([]float64, n)
		for i := range z {
			z[i] = float64(i) + 0.25
		}
		if err := act.Eval(ctx, dst, z); err != nil {
			t.Fatal(err)
		}
		for i := range z {
			if dst[i] != 2*z[i]*z[i] {
				t.Fatalf("n = %d: g(z[%d]) = %v, want %v", n, i, dst[i], 2*z[i]*z[i])
			}
		}
		if err := act.Deriv(ctx, z, z); err != nil {
			t.Fatal(err)
		}
		for i := range z {
			if want := 4 * (float64(i) + 0.25); z[i] != want {
				t.Fatalf("n = %d, in place: g′(z[%d]) = %v, want %v", n, i, z[i], want)
			}
		}
	}
}

// TestLongRequest sends eight megabytes in one message, as a host that does not
// split its batches may: gRPC's own limit is four.
func TestLongRequest(t *testing.T) {
	z := make([]float64, 1<<20)
	z[len(z)-1] = 3
	resp, err := loop(t, family(plain)).rpc.Eval(t.Context(), &pb.BatchRequest{Z: numeric.AppendFloats(nil, z)},
		grpc.MaxCallRecvMsgSize(MaxRequest))
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeFloats(z, resp.Values); err != nil || z[len(z)-1] != 27 {
		t.Errorf("last value %v, %v, want 27", z[len(z)-1], err)
	}
}

func TestSpecialValues(t *testing.T) {
	nan := math.Float64frombits(0x7ff8dead_beef0001)
	in := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), nan, 5e-324, math.MaxFloat64}
	out := make([]float64, len(in))
	if err := decodeFloats(out, numeric.AppendFloats(nil, in)); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		if math.Float64bits(in[i]) != math.Float64bits(out[i]) {
			t.Errorf("%x became %x", math.Float64bits(in[i]), math.Float64bits(out[i]))
		}
	}
}

func TestParamErrors(t *testing.T) {
	ctx := t.Context()
	c := loop(t, family(plain))
	for _, p := range []sdk.Params{{"d": 1}, {"c": 0.5}, {"c": math.NaN()}, {"c": math.Inf(1)}} {
		_, err := c.Activation(ctx, p)
		var call *CallError
		if !errors.As(err, &call) || call.Code != codes.InvalidArgument || !strings.Contains(err.Error(), "scaled") {
			t.Errorf("parameters %v: error %v, want InvalidArgument that names the activation", p, err)
		}
	}
}

func TestPanicIsAnError(t *testing.T) {
	f := sdk.Single(sdk.Func{Name: "bomb", G: func(float64) float64 { panic("boom") }})
	act, err := loop(t, f).Activation(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the server still there
		err = act.Eval(t.Context(), make([]float64, 1), make([]float64, 1))
		if err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("error %v, want the panic's message", err)
		}
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	act, err := loop(t, family(plain)).Activation(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := act.Eval(ctx, make([]float64, 1), make([]float64, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// canned answers every call with the same messages.
type canned struct {
	describe  *pb.DescribeResponse
	configure *pb.ConfigureResponse
	batch     *pb.BatchResponse
	moments   *pb.MomentsResponse
	system    *pb.SystemResponse
}

func (c canned) Describe(context.Context, *pb.DescribeRequest, ...grpc.CallOption) (*pb.DescribeResponse, error) {
	return c.describe, nil
}

func (c canned) Configure(context.Context, *pb.ConfigureRequest, ...grpc.CallOption) (*pb.ConfigureResponse, error) {
	return c.configure, nil
}

func (c canned) Eval(context.Context, *pb.BatchRequest, ...grpc.CallOption) (*pb.BatchResponse, error) {
	return c.batch, nil
}

func (c canned) Deriv(context.Context, *pb.BatchRequest, ...grpc.CallOption) (*pb.BatchResponse, error) {
	return c.batch, nil
}

func (c canned) Moments(context.Context, *pb.MomentsRequest, ...grpc.CallOption) (*pb.MomentsResponse, error) {
	return c.moments, nil
}

func (c canned) System(context.Context, *pb.SystemRequest, ...grpc.CallOption) (*pb.SystemResponse, error) {
	return c.system, nil
}

func TestMalformedReplies(t *testing.T) {
	ctx := t.Context()
	client := func(c canned) *Client { return &Client{rpc: c} }
	eval := func(b []byte) error {
		m := Member{Client: client(canned{batch: &pb.BatchResponse{Values: b}})}
		return m.Eval(ctx, make([]float64, 2), make([]float64, 2))
	}
	describe := func(r *pb.DescribeResponse) error {
		_, err := client(canned{describe: r}).Describe(ctx)
		return err
	}
	configure := func(r *pb.ConfigureResponse) error {
		_, _, err := client(canned{configure: r}).Configure(ctx, nil)
		return err
	}
	nan := math.NaN()
	var flood []*pb.Parameter
	for i := range maxNames + 1 {
		flood = append(flood, &pb.Parameter{Name: "p" + strconv.Itoa(i)})
	}
	full := make([]float64, 25)
	bad := make([]float64, 25)
	bad[24] = nan
	moments := func(v, e []float64) error {
		_, err := Member{Client: client(canned{moments: &pb.MomentsResponse{Value: v, Error: e}})}.Moments(ctx)
		return err
	}
	system := func(edit func(*pb.SystemResponse)) error {
		r := &pb.SystemResponse{
			Sigma: 1, Matrix: make([]float64, 9), Rhs: make([]float64, 3), C4: make([]float64, 4),
			Delta: make([]float64, 2), C2: make([]float64, 2),
			CubicMatrix: make([]float64, 4), CubicRhs: make([]float64, 2), C3: make([]float64, 3),
		}
		edit(r)
		_, err := Member{Client: client(canned{system: r})}.System(ctx, 1)
		return err
	}
	for name, err := range map[string]error{
		"well-formed batch":       eval(make([]byte, 16)),
		"well-formed description": describe(&pb.DescribeResponse{Name: "a"}),
		"well-formed activation":  configure(&pb.ConfigureResponse{Name: "a", Kinks: []float64{-1, 2}}),
		"well-formed moments":     moments(full, full),
		"well-formed system":      system(func(*pb.SystemResponse) {}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"short batch":         eval(make([]byte, 8)),
		"long batch":          eval(make([]byte, 24)),
		"torn value":          eval(make([]byte, 15)),
		"empty batch":         eval(nil),
		"no name":             describe(&pb.DescribeResponse{}),
		"escape in name":      describe(&pb.DescribeResponse{Name: "a\x1b[31m"}),
		"escape in version":   describe(&pb.DescribeResponse{Name: "a", Version: "\x1b"}),
		"default above range": describe(&pb.DescribeResponse{Name: "a", Parameters: []*pb.Parameter{{Name: "p", Default: 3, Max: 2}}}),
		"empty range":         describe(&pb.DescribeResponse{Name: "a", Parameters: []*pb.Parameter{{Name: "p", Min: 1, Max: -1}}}),
		"NaN default":         describe(&pb.DescribeResponse{Name: "a", Parameters: []*pb.Parameter{{Name: "p", Default: nan}}}),
		"parameter twice":     describe(&pb.DescribeResponse{Name: "a", Parameters: []*pb.Parameter{{Name: "p"}, {Name: "p"}}}),
		"parameters flood":    describe(&pb.DescribeResponse{Name: "a", Parameters: flood}),
		"kinks out of order":  configure(&pb.ConfigureResponse{Name: "a", Kinks: []float64{1, 0}}),
		"NaN kink":            configure(&pb.ConfigureResponse{Name: "a", Kinks: []float64{nan}}),
		"infinite parameter":  configure(&pb.ConfigureResponse{Name: "a", Params: sdk.Params{"p": math.Inf(1)}}),
		"kinks flood":         configure(&pb.ConfigureResponse{Name: "a", Kinks: make([]float64, maxKinks+1)}),
		"NaN moment":          moments(bad, full),
		"NaN moment error":    moments(full, bad),
		"moments missing":     moments(full[:24], full),
		"other sigma":         system(func(r *pb.SystemResponse) { r.Sigma = 2 }),
		"short matrix":        system(func(r *pb.SystemResponse) { r.Matrix = r.Matrix[:8] }),
		"NaN in c3":           system(func(r *pb.SystemResponse) { r.C3[2] = nan }),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzDecode feeds the decoder of batches any bytes: it fills dst exactly when
// they are as many as it needs, and the bytes come back.
func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, 16), 2)
	f.Add([]byte{1, 2, 3}, 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		dst := make([]float64, n&0xff)
		err := decodeFloats(dst, b)
		if (err == nil) != (len(b) == 8*len(dst)) {
			t.Fatalf("%d bytes for %d values: %v", len(b), len(dst), err)
		}
		if err == nil && string(numeric.AppendFloats(nil, dst)) != string(b) {
			t.Fatal("the bytes did not come back")
		}
	})
}

// FuzzReplies feeds a client any bytes as the messages that a plugin answers
// with: it returns an error, or what keeps the promises of its documentation.
func FuzzReplies(f *testing.F) {
	nan := math.NaN()
	for _, m := range []proto.Message{
		&pb.DescribeResponse{Name: "a", Parameters: []*pb.Parameter{{Name: "p", Default: 1, Max: 2}}},
		&pb.DescribeResponse{Name: "a\x1b[2J", Doc: strings.Repeat("d", 2000), Parameters: []*pb.Parameter{{Name: "p", Min: nan}}},
		&pb.ConfigureResponse{Name: "a", Params: sdk.Params{"p": 1}, Kinks: []float64{-1, 0, 1}, Moments: true},
		&pb.ConfigureResponse{Name: "a", Kinks: []float64{1, nan, -1}},
		&pb.BatchResponse{Values: make([]byte, 16)},
		&pb.MomentsResponse{Value: make([]float64, 25), Error: make([]float64, 25)},
		&pb.SystemResponse{Sigma: 1, Matrix: make([]float64, 9), Rhs: make([]float64, 3), C4: make([]float64, 4),
			Delta: make([]float64, 2), C2: make([]float64, 2), CubicMatrix: make([]float64, 4), CubicRhs: make([]float64, 2), C3: []float64{0, nan, 0}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := t.Context()
		c := canned{new(pb.DescribeResponse), new(pb.ConfigureResponse), new(pb.BatchResponse), new(pb.MomentsResponse), new(pb.SystemResponse)}
		for _, m := range []proto.Message{c.describe, c.configure, c.batch, c.moments, c.system} {
			if proto.Unmarshal(data, m) != nil {
				proto.Reset(m) // gRPC refuses it
			}
		}
		client := &Client{rpc: c}
		if family, err := client.Describe(ctx); err == nil {
			if _, err := family.Activation(nil); err != nil && !errors.As(err, new(*ReplyError)) {
				t.Errorf("its own defaults are refused: %v", err)
			}
		}
		if info, _, err := client.Configure(ctx, nil); err == nil && (info.Name == "" || !slices.IsSorted(info.Kinks) || !numeric.Finite(info.Kinks...)) {
			t.Errorf("accepted: %+v", info)
		}
		m := Member{Client: client}
		dst := make([]float64, 2)
		if err := m.Eval(ctx, dst, dst); (err == nil) != (len(c.batch.Values) == 16) {
			t.Errorf("%d bytes: %v", len(c.batch.Values), err)
		}
		if got, err := m.Moments(ctx); err == nil && !numeric.Finite(got.Value[4][4], got.Error[4][4]) {
			t.Errorf("accepted: %+v", got)
		}
		if got, err := m.System(ctx, 1); err == nil && (got.Sigma != 1 || !numeric.Finite(got.Cubic.C3[:]...)) {
			t.Errorf("accepted: %+v", got)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	c, stop, err := Loopback(family(plain))
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	act, err := c.Activation(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	z := make([]float64, Chunk)
	b.SetBytes(8 * Chunk)
	for b.Loop() {
		if err := act.Eval(b.Context(), z, z); err != nil {
			b.Fatal(err)
		}
	}
}
