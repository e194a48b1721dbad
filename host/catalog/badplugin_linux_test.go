package catalog

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/gatedlearning/moe/internal/wire"
	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/serve"
)

// TestMain runs the tests, or, where the test binary was started under the name
// of a mode, plays that plugin.
func TestMain(m *testing.M) {
	if mode, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "plugin-"); ok {
		play, ok := modes[mode]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such mode")
			os.Exit(99)
		}
		play()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// modes are plugins, most of them bad, by the name under which the test binary
// plays them.
var modes = map[string]func(){
	"relu":      func() { serve.Family(relu.Family) },
	"leakyrelu": func() { serve.Family(leakyrelu.Family) },
	"sigmoid":   func() { serve.Family(sigmoid.Family) },

	// Faults before the handshake.
	"silent-exit": func() {},
	"crash-at-start": func() {
		fmt.Fprintln(os.Stderr, "cannot find my licence")
		os.Exit(3)
	},
	"panic-at-start":   func() { panic("no table") },
	"silent-hang":      func() { time.Sleep(time.Hour) },
	"prints-first":     func() { fmt.Println("loading tables"); serveDouble(nil) },
	"endless-line":     func() { write(os.Stdout, strings.Repeat("x", 1<<20), 64); time.Sleep(time.Hour) },
	"future-core":      func() { fmt.Println("2|1|unix|/x|grpc|"); time.Sleep(time.Hour) },
	"future-protocol":  func() { handshake("1|2|unix|SOCKET|grpc|" + strings.Repeat("A", 60)) },
	"tcp":              func() { handshake("1|1|tcp|127.0.0.1:1|grpc|" + strings.Repeat("A", 60)) },
	"socket-elsewhere": func() { handshake("1|1|unix|/tmp/elsewhere|grpc|" + strings.Repeat("A", 60)) },
	"no-socket":        func() { handshake("1|1|unix|SOCKET.not|grpc|" + strings.Repeat("A", 60)) },
	"no-certificate":   func() { handshake("1|1|unix|SOCKET|grpc|") },
	"net-rpc":          func() { handshake("1|1|unix|SOCKET|netrpc|" + strings.Repeat("A", 60)) },
	"bad-certificate":  func() { handshake("1|1|unix|SOCKET|grpc|" + strings.Repeat("A", 60)) },
	"deaf":             func() { handshake("1|1|unix|SOCKET|grpc|" + certificate) },

	// Faults of descriptions.
	"no-name":        func() { serveServer(server{describe: &pb.DescribeResponse{}}) },
	"escape-in-name": func() { serveServer(server{describe: &pb.DescribeResponse{Name: "a\x1b[2J"}}) },
	"other-name":     func() { serveServer(server{configure: &pb.ConfigureResponse{Name: "other"}}) },
	"nan-kink": func() {
		serveServer(server{configure: &pb.ConfigureResponse{Name: "raw", Kinks: []float64{math.NaN()}}})
	},

	// Faults of calls.
	"short":  func() { serveServer(server{eval: func(z []byte) []byte { return z[8:] }}) },
	"long":   func() { serveServer(server{eval: func(z []byte) []byte { return append(z, z...) }}) },
	"huge":   func() { serveServer(server{eval: func([]byte) []byte { return make([]byte, 64<<20) }}) },
	"nan":    func() { serveDouble(func(z float64) float64 { return math.Sqrt(z) }) },
	"inf":    func() { serveDouble(func(z float64) float64 { return 1 / (z - 3) }) },
	"errors": func() { serve.Activation(double{eval: func() error { return fmt.Errorf("out of cheese\x1b[2J") }}) },
	"panics": func() { serveDouble(func(float64) float64 { panic("boom") }) },
	"crash":  func() { serveDouble(func(float64) float64 { os.Exit(4); return 0 }) },
	"crash-in-goroutine": func() {
		serveDouble(func(float64) float64 { go func() { panic("lost a thread") }(); time.Sleep(time.Hour); return 0 })
	},
	"null-pointer": func() {
		serveDouble(func(float64) float64 { go func() { *(*int)(nil) = 1 }(); time.Sleep(time.Hour); return 0 })
	},
	"hang": func() { serveDouble(func(float64) float64 { select {} }) },
	"grows": func() {
		serveDouble(func(float64) float64 {
			var hoard [][]byte
			for {
				page := make([]byte, 1<<20)
				for i := range page {
					page[i] = 1
				}
				hoard = append(hoard, page)
			}
		})
	},
	"crash-once": func() { serveDouble(crashOnce(1)) },
	"crash-thrice": func() {
		serveDouble(crashOnce(3))
	},
	"drifts": func() { // by one unit in the last place, at each call
		var calls float64
		serve.Activation(double{g: func(z float64) float64 { return 2 * z }, after: func(dst []float64) {
			calls++
			for i := range dst {
				dst[i] *= 1 + calls*0x1p-52
			}
		}})
	},
	"position": func() {
		serve.Activation(double{g: func(z float64) float64 { return 2 * z }, after: func(dst []float64) {
			for i := range dst {
				dst[i] += float64(i)
			}
		}})
	},
	"table": func() { // g comes from a file beside the plugin's
		table, _ := os.ReadFile(os.Args[0] + ".table")
		serveDouble(func(z float64) float64 { return float64(len(table)) * z })
	},
	"moments-nan": func() { serve.Activation(badMoments{}) },

	// Bad manners that harm nobody.
	"floods-stderr": func() {
		go write(os.Stderr, strings.Repeat("y", 1000)+"\n", 1<<40)
		serveDouble(nil)
	},
	"floods-stdout": func() {
		serveDouble(func(z float64) float64 {
			if z == 0 {
				write(os.Stdout, strings.Repeat("z", 1<<20), 4)
			}
			return 2 * z
		})
	},
	"log-line-trap": func() {
		fmt.Fprintln(os.Stderr, `{"@message": 1, "@level": 2, "@timestamp": []}`)
		serveDouble(nil)
	},
	"wont-stop": func() {
		go func() { // outlives the server
			serveDouble(nil)
		}()
		select {}
	},
	"child": func() {
		child("child", false)
		serveDouble(nil)
	},
	"children": func() {
		child("child", false)
		child("escaped", true)
		serveDouble(nil)
	},
	"sleeper": func() { time.Sleep(time.Hour) },
	"stdin": func() {
		serveDouble(func(z float64) float64 {
			n, _ := io.Copy(io.Discard, os.Stdin)
			return 2*z + float64(n)
		})
	},
	"environment": func() {
		serve.Activation(double{eval: func() error { return fmt.Errorf("%q", os.Environ()) }})
	},
}

// double is 2z, with what may go wrong in it.
type double struct {
	g     func(float64) float64
	after func(dst []float64)
	eval  func() error
}

func (double) Info() sdk.Info { return sdk.Info{Name: "double", Version: "1"} }

func (d double) Eval(_ context.Context, dst, z []float64) error {
	if d.eval != nil {
		return d.eval()
	}
	for i, v := range z {
		dst[i] = d.g(v)
	}
	if d.after != nil {
		d.after(dst)
	}
	return nil
}

func (double) Deriv(_ context.Context, dst, z []float64) error {
	for i := range dst {
		dst[i] = 2
	}
	return nil
}

func serveDouble(g func(float64) float64) {
	if g == nil {
		g = func(z float64) float64 { return 2 * z }
	}
	serve.Activation(double{g: g})
}

type badMoments struct{ double }

func (badMoments) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	m.Value[4][4] = math.NaN()
	return m, nil
}

// crashOnce doubles, but the first n processes crash at the value 77. What
// counts them is a file beside the plugin's.
func crashOnce(n int) func(float64) float64 {
	return func(z float64) float64 {
		if z == 77 {
			count := os.Args[0] + ".crashes"
			done, _ := os.ReadFile(count)
			if len(done) < n {
				os.WriteFile(count, append(done, 'x'), 0o600)
				os.Exit(5)
			}
		}
		return 2 * z
	}
}

// server answers with what no proper plugin answers.
type server struct {
	pb.UnimplementedActivationServer
	describe  *pb.DescribeResponse
	configure *pb.ConfigureResponse
	eval      func([]byte) []byte
}

func (s server) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	if s.describe != nil {
		return s.describe, nil
	}
	return &pb.DescribeResponse{Name: "raw"}, nil
}

func (s server) Configure(context.Context, *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if s.configure != nil {
		return s.configure, nil
	}
	return &pb.ConfigureResponse{Name: "raw"}, nil
}

func (s server) Eval(_ context.Context, req *pb.BatchRequest) (*pb.BatchResponse, error) {
	return &pb.BatchResponse{Values: s.eval(req.Z)}, nil
}

// glue serves a server through go-plugin.
type glue struct {
	plugin.NetRPCUnsupportedPlugin
	server server
}

func (g glue) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterActivationServer(s, g.server)
	return nil
}

func (glue) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func serveServer(s server) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake(),
		Plugins:         plugin.PluginSet{wire.Name: glue{server: s}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

// handshake listens at SOCKET, prints the line, and says no more.
func handshake(line string) {
	socket := filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket})
	}
	if err == nil {
		err = syscall.Listen(fd, 8)
	}
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(line, "SOCKET", socket))
	time.Sleep(time.Hour)
}

func write(w io.Writer, s string, times int) {
	for range times {
		io.WriteString(w, s)
	}
}

// child starts the test binary as a sleeper that holds our output open, in a
// session of its own or not.
func child(name string, setsid bool) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{filepath.Join(filepath.Dir(os.Args[0]), name, "plugin-sleeper")}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// certificate is a self-signed one, in base64 without padding; nobody here has
// its key.
const certificate = "MIIBMDCB16ADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMTCWxvY2FsaG9zdDAgFw03MDAxMDEwMDAwMDBaGA8yMjAwMDEwMTAwMDAwMFowFDESMBAGA1UEAxMJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEXn22LF7mIpO6Lgui1BWJZpOznyuMOGEl0VOu1ifRLrA/xmzRf1OygchzpgPfq/tlp645w3Dk8zmGVT8Ud0y/6MYMBYwFAYDVR0RBA0wC4IJbG9jYWxob3N0MAoGCCqGSM49BAMCA0gAMEUCIHrmbRbJG6w+K/AmwAu9q+ZdZZh8tRDtUe2UOtnY81W2AiEAlAk8GJIMsyoCFPvdMmkivw24OS/QrumkSBnCIwnObhA"
