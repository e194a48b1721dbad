package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gatedlearning/moe/internal/numeric"
	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/sdk"
)

// server answers for a family. It keeps nothing between calls.
type server struct {
	pb.UnimplementedActivationServer
	family sdk.Family
}

func (s *server) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	resp := &pb.DescribeResponse{Name: s.family.Name, Version: s.family.Version, Doc: s.family.Doc}
	for _, p := range s.family.Params {
		resp.Parameters = append(resp.Parameters, &pb.Parameter{
			Name: p.Name, Doc: p.Doc, Default: p.Default, Min: p.Min, Max: p.Max,
		})
	}
	return resp, nil
}

func (s *server) Configure(_ context.Context, req *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	act, err := s.member(req.Params)
	if err != nil {
		return nil, err
	}
	info := act.Info()
	_, moments := act.(sdk.MomentsProvider)
	_, system := act.(sdk.SystemProvider)
	return &pb.ConfigureResponse{
		Name: info.Name, Version: info.Version, Params: info.Params, Kinks: info.Kinks,
		Moments: moments, System: system,
	}, nil
}

func (s *server) Eval(ctx context.Context, req *pb.BatchRequest) (*pb.BatchResponse, error) {
	return s.batch(ctx, req, sdk.Activation.Eval)
}

func (s *server) Deriv(ctx context.Context, req *pb.BatchRequest) (*pb.BatchResponse, error) {
	return s.batch(ctx, req, sdk.Activation.Deriv)
}

func (s *server) Moments(ctx context.Context, req *pb.MomentsRequest) (*pb.MomentsResponse, error) {
	act, err := s.member(req.Params)
	if err != nil {
		return nil, err
	}
	p, ok := act.(sdk.MomentsProvider)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the activation brings no moments of its own")
	}
	m, err := p.Moments(ctx)
	if err != nil {
		return nil, fault(err)
	}
	resp := &pb.MomentsResponse{}
	for p := range m.Value {
		resp.Value = append(resp.Value, m.Value[p][:]...)
		resp.Error = append(resp.Error, m.Error[p][:]...)
	}
	return resp, nil
}

func (s *server) System(ctx context.Context, req *pb.SystemRequest) (*pb.SystemResponse, error) {
	act, err := s.member(req.Params)
	if err != nil {
		return nil, err
	}
	p, ok := act.(sdk.SystemProvider)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the activation brings no system of its own")
	}
	sys, err := p.System(ctx, req.Sigma)
	if err != nil {
		return nil, fault(err)
	}
	resp := &pb.SystemResponse{
		Sigma: sys.Sigma, Rhs: sys.RHS[:], C4: sys.C4[:], Delta: sys.Delta[:], C2: sys.C2[:],
		CubicRhs: sys.Cubic.RHS[:], C3: sys.Cubic.C3[:],
	}
	for i := range sys.Matrix {
		resp.Matrix = append(resp.Matrix, sys.Matrix[i][:]...)
	}
	for i := range sys.Cubic.Matrix {
		resp.CubicMatrix = append(resp.CubicMatrix, sys.Cubic.Matrix[i][:]...)
	}
	return resp, nil
}

func (s *server) member(params map[string]float64) (sdk.Activation, error) {
	act, err := s.family.Activation(params)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return act, nil
}

func (s *server) batch(ctx context.Context, req *pb.BatchRequest,
	method func(sdk.Activation, context.Context, []float64, []float64) error) (*pb.BatchResponse, error) {
	act, err := s.member(req.Params)
	if err != nil {
		return nil, err
	}
	z := make([]float64, len(req.Z)/8)
	if err := decodeFloats(z, req.Z); err != nil {
		return nil, status.Error(codes.InvalidArgument, "z: "+err.Error())
	}
	values := make([]float64, len(z))
	if err := method(act, ctx, values, z); err != nil {
		return nil, fault(err)
	}
	return &pb.BatchResponse{Values: numeric.AppendFloats(req.Z[:0], values)}, nil
}

// fault is an error of the activation's own, as a status.
func fault(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unknown, err.Error())
}
