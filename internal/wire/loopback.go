package wire

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gatedlearning/moe/sdk"
)

// Loopback serves f through real gRPC within the process, for tests, and
// returns its client. The returned function ends it.
func Loopback(f sdk.Family) (*Client, func(), error) {
	lis := bufconn.Listen(1 << 20)
	srv := NewServer(nil)
	Register(srv, f)
	go srv.Serve(lis)
	conn, err := grpc.NewClient("passthrough:loopback",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		srv.Stop()
		return nil, nil, err
	}
	return NewClient(conn), func() { conn.Close(); srv.Stop() }, nil
}
