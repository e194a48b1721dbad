package wire

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gatedlearning/moe/internal/numeric"
	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/sdk"
)

// Client calls a plugin over one connection. It checks the form of every reply:
// lengths, names, and that descriptions, moments and systems are finite.
type Client struct {
	rpc pb.ActivationClient
}

// NewClient returns a client that calls over conn.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: pb.NewActivationClient(conn)}
}

// CallError is a call that the plugin answered with an error, or not at all.
type CallError struct {
	Call    string // the method, such as "Eval"
	Code    codes.Code
	Message string
}

func (e *CallError) Error() string { return e.Call + ": " + e.Message }

// ReplyError is a reply that is not what the protocol says.
type ReplyError struct {
	Call string // the method, such as "Eval"
	Err  error
}

func (e *ReplyError) Error() string { return e.Call + ": " + e.Err.Error() }
func (e *ReplyError) Unwrap() error { return e.Err }

// callError turns a gRPC error into a *CallError, or into the context's own
// error where that is the cause. gRPC has timers of its own, which may fire
// just before that of the context.
func callError(ctx context.Context, call string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s := status.Convert(err)
	if end, ok := ctx.Deadline(); ok && s.Code() == codes.DeadlineExceeded && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return &CallError{Call: call, Code: s.Code(), Message: s.Message()}
}

// Describe returns the plugin's family. Its members are configured by calls
// under the same ctx.
func (c *Client) Describe(ctx context.Context) (sdk.Family, error) {
	resp, err := c.rpc.Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return sdk.Family{}, callError(ctx, "Describe", err)
	}
	f := sdk.Family{
		Name: resp.Name, Version: resp.Version, Doc: resp.Doc,
		New: func(p sdk.Params) (sdk.Activation, error) { return c.Activation(ctx, p) },
	}
	for _, p := range resp.Parameters {
		f.Params = append(f.Params, sdk.Param{
			Name: p.Name, Doc: p.Doc, Default: p.Default, Min: p.Min, Max: p.Max,
		})
	}
	if err := CheckFamily(f); err != nil {
		return sdk.Family{}, &ReplyError{"Describe", err}
	}
	return f, nil
}

// Activation returns the member of the plugin's family with the given
// parameters; those not named take their defaults.
func (c *Client) Activation(ctx context.Context, params sdk.Params) (sdk.Activation, error) {
	info, caps, err := c.Configure(ctx, params)
	if err != nil {
		return nil, err
	}
	return Expose(info, caps, Member{Client: c, Params: params}), nil
}

// Configure returns the description and the capabilities of a member of the
// plugin's family.
func (c *Client) Configure(ctx context.Context, params sdk.Params) (sdk.Info, Capabilities, error) {
	resp, err := c.rpc.Configure(ctx, &pb.ConfigureRequest{Params: params})
	if err != nil {
		return sdk.Info{}, Capabilities{}, callError(ctx, "Configure", err)
	}
	info := sdk.Info{Name: resp.Name, Version: resp.Version, Params: resp.Params, Kinks: resp.Kinks}
	if err := CheckInfo(info); err != nil {
		return sdk.Info{}, Capabilities{}, &ReplyError{"Configure", err}
	}
	return info, Capabilities{Moments: resp.Moments, System: resp.System}, nil
}

// Member is one activation of a plugin's family: the [Backend] that calls it.
type Member struct {
	Client *Client
	Params sdk.Params // as in Configure
}

// Eval writes g(z_i) to dst_i, in calls of at most Chunk values.
func (m Member) Eval(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Eval", m.Client.rpc.Eval, dst, z)
}

// Deriv writes g′(z_i) to dst_i, in calls of at most Chunk values.
func (m Member) Deriv(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Deriv", m.Client.rpc.Deriv, dst, z)
}

type batchCall func(context.Context, *pb.BatchRequest, ...grpc.CallOption) (*pb.BatchResponse, error)

func (m Member) batches(ctx context.Context, name string, call batchCall, dst, z []float64) error {
	if len(dst) != len(z) {
		return fmt.Errorf("%s: %d places for %d values", name, len(dst), len(z))
	}
	buf := make([]byte, 0, 8*min(len(z), Chunk))
	for lo := 0; lo < len(z); lo += Chunk {
		hi := min(lo+Chunk, len(z))
		buf = numeric.AppendFloats(buf[:0], z[lo:hi])
		resp, err := call(ctx, &pb.BatchRequest{Params: m.Params, Z: buf})
		if err != nil {
			return callError(ctx, name, err)
		}
		if err := decodeFloats(dst[lo:hi], resp.Values); err != nil {
			return &ReplyError{name, fmt.Errorf("reply of %w", err)}
		}
	}
	return nil
}

// Moments asks the plugin for its moments.
func (m Member) Moments(ctx context.Context) (sdk.Moments, error) {
	resp, err := m.Client.rpc.Moments(ctx, &pb.MomentsRequest{Params: m.Params})
	if err != nil {
		return sdk.Moments{}, callError(ctx, "Moments", err)
	}
	const n = sdk.MaxOrder + 1
	var value, bound [n * n]float64
	if err := takeAll(
		field{value[:], resp.Value, "value"},
		field{bound[:], resp.Error, "error"},
	); err != nil {
		return sdk.Moments{}, &ReplyError{"Moments", err}
	}
	var out sdk.Moments
	for p := range n {
		copy(out.Value[p][:], value[p*n:])
		copy(out.Error[p][:], bound[p*n:])
	}
	return out, nil
}

// System asks the plugin for its linear system at noise level sigma.
func (m Member) System(ctx context.Context, sigma float64) (sdk.System, error) {
	resp, err := m.Client.rpc.System(ctx, &pb.SystemRequest{Params: m.Params, Sigma: sigma})
	if err != nil {
		return sdk.System{}, callError(ctx, "System", err)
	}
	var matrix [9]float64
	var cubic [4]float64
	out := sdk.System{Sigma: resp.Sigma}
	if out.Sigma != sigma {
		return sdk.System{}, &ReplyError{"System", fmt.Errorf("reply for sigma %v, asked for %v", out.Sigma, sigma)}
	}
	if err := takeAll(
		field{matrix[:], resp.Matrix, "matrix"},
		field{out.RHS[:], resp.Rhs, "rhs"},
		field{out.C4[:], resp.C4, "c4"},
		field{out.Delta[:], resp.Delta, "delta"},
		field{out.C2[:], resp.C2, "c2"},
		field{cubic[:], resp.CubicMatrix, "cubic_matrix"},
		field{out.Cubic.RHS[:], resp.CubicRhs, "cubic_rhs"},
		field{out.Cubic.C3[:], resp.C3, "c3"},
	); err != nil {
		return sdk.System{}, &ReplyError{"System", err}
	}
	for i := range out.Matrix {
		copy(out.Matrix[i][:], matrix[3*i:])
	}
	for i := range out.Cubic.Matrix {
		copy(out.Cubic.Matrix[i][:], cubic[2*i:])
	}
	return out, nil
}

type field struct {
	dst, src []float64
	name     string
}

func takeAll(fields ...field) error {
	for _, f := range fields {
		if err := take(f.dst, f.src, f.name); err != nil {
			return err
		}
	}
	return nil
}

// Limits on what a plugin may say about itself. They are far above what an
// activation needs and keep a description printable.
const (
	maxKinks = 4096
	maxText  = 1024
	maxNames = 64
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`) })

// ValidName says whether a family or a parameter may be called this: lower case letters,
// digits and dashes, at most 64 of them, a letter first.
func ValidName(name string) bool { return nameForm().MatchString(name) }

// CheckFamily checks what a family says about itself: names, and defaults
// within their ranges.
func CheckFamily(f sdk.Family) error {
	if err := checkNames(f.Name, f.Version); err != nil {
		return err
	}
	if len(f.Doc) > maxText {
		return fmt.Errorf("a description of %d bytes; %d are allowed", len(f.Doc), maxText)
	}
	if len(f.Params) > maxNames {
		return fmt.Errorf("%d parameters; %d are allowed", len(f.Params), maxNames)
	}
	seen := map[string]bool{}
	for _, p := range f.Params {
		if !ValidName(p.Name) || seen[p.Name] || len(p.Doc) > maxText {
			return fmt.Errorf("parameter %.80q: names are lower case letters, digits and dashes, each once", p.Name)
		}
		seen[p.Name] = true
		if !(p.Min <= p.Max) || !numeric.Finite(p.Min, p.Max, p.Default) {
			return fmt.Errorf("parameter %q: range [%v, %v] with default %v", p.Name, p.Min, p.Max, p.Default)
		}
		if (p.Min != 0 || p.Max != 0) && (p.Default < p.Min || p.Default > p.Max) {
			return fmt.Errorf("parameter %q: default %v is outside [%v, %v]", p.Name, p.Default, p.Min, p.Max)
		}
	}
	return nil
}

// CheckInfo checks what an activation says about itself: names, finite
// parameters, and finite kinks in ascending order.
func CheckInfo(info sdk.Info) error {
	if err := checkNames(info.Name, info.Version); err != nil {
		return err
	}
	if len(info.Params) > maxNames {
		return fmt.Errorf("%d parameters; %d are allowed", len(info.Params), maxNames)
	}
	for _, name := range info.Params.Names() {
		if !ValidName(name) || !numeric.Finite(info.Params[name]) {
			return fmt.Errorf("parameter %.80q = %v", name, info.Params[name])
		}
	}
	if len(info.Kinks) > maxKinks {
		return fmt.Errorf("%d kinks; %d are allowed", len(info.Kinks), maxKinks)
	}
	if !numeric.Finite(info.Kinks...) || !slices.IsSorted(info.Kinks) {
		return fmt.Errorf("kinks %v are not finite and ascending", info.Kinks)
	}
	return nil
}

func checkNames(name, version string) error {
	if !ValidName(name) {
		return fmt.Errorf("name %.80q is not lower case letters, digits and dashes, a letter first", name)
	}
	if len(version) > 64 || !printable(version) {
		return fmt.Errorf("version %.80q is longer than 64 bytes or not printable", version)
	}
	return nil
}

func printable(s string) bool {
	return !slices.ContainsFunc([]rune(s), func(r rune) bool { return r < ' ' || r > '~' })
}
