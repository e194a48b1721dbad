// Package wire is the protocol between the host and its plugins: adapters from
// an [sdk.Family] to gRPC and back. The protocol itself is documented in
// activationpb/activation.proto.
package wire

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/sdk"
)

const (
	// Version is the major version of the protocol.
	Version = 1
	// Name is the name under which go-plugin dispenses the activation.
	Name = "activation"
	// Chunk is the number of values in one message. At 512 KiB the cost of a
	// call is small against that of the values in it.
	Chunk = 1 << 16
	// MaxRequest is the size in bytes of the largest message that a plugin
	// accepts, and MaxReply of the largest that a host does: eight times what
	// a full chunk needs.
	MaxRequest = 64 << 20
	MaxReply   = 4 << 20

	// Window is the size in bytes of gRPC's flow-control windows: a full chunk
	// goes through without waiting for the other side. Buffer is that of its
	// buffers for a connection.
	Window = 1 << 20
	Buffer = 1 << 18

	// EnvLifeline names the environment variable with the number of a file
	// descriptor that the host keeps open for as long as it lives.
	EnvLifeline = "MOE_PLUGIN_LIFELINE"
)

// Handshake is what go-plugin compares on both sides before anything else. It
// tells a plugin that a host has started it; it is no protection.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  Version,
		MagicCookieKey:   "MOE_PLUGIN",
		MagicCookieValue: "gated learning",
	}
}

// Plugin joins the protocol to go-plugin. The plugin sets Family; on the
// host's side it is not used, and Dispense returns a [*Client].
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Family sdk.Family
}

// GRPCServer registers the family with go-plugin's server.
func (p Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	Register(s, p.Family)
	return nil
}

// GRPCClient returns the *Client of a connection.
func (p Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

// Descriptor returns the protocol as a serialised FileDescriptorProto, from
// which plugins in other languages can make their messages.
func Descriptor() ([]byte, error) {
	file := protodesc.ToFileDescriptorProto(activationpb.File_activation_proto)
	return proto.MarshalOptions{Deterministic: true}.Marshal(file)
}

// Register registers f with a gRPC server.
func Register(s grpc.ServiceRegistrar, f sdk.Family) {
	activationpb.RegisterActivationServer(s, &server{family: f})
}

// NewServer returns a gRPC server that takes messages of MaxRequest bytes and
// turns a panic in an activation into an error of the call.
func NewServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxRequest),
		grpc.InitialWindowSize(Window),
		grpc.InitialConnWindowSize(Window),
		grpc.WriteBufferSize(Buffer),
		grpc.ReadBufferSize(Buffer),
		grpc.ChainUnaryInterceptor(recoverPanic))...)
}

func recoverPanic(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, status.Error(codes.Internal, fmt.Sprintf("panic: %v", r))
		}
	}()
	return next(ctx, req)
}
