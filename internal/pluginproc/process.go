package pluginproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/wire"
)

const (
	// stopGrace is how long a plugin may take to end when asked to.
	stopGrace = time.Second
	// killGrace is how long it may take to be gone when it was killed.
	killGrace = time.Second
	// endGrace is how long a plugin may take to end after its output or its
	// connection has, and its output after it.
	endGrace = 500 * time.Millisecond
	// noTimeout is longer than any plugin runs.
	noTimeout = 10000 * time.Hour
)

// process is a running plugin.
type process struct {
	client *wire.Client

	runner  *runner
	manager *plugin.Client
	dir     *runtimeDir
}

// start starts the plugin in img and connects to it. An error is a *FaultError
// or the context's.
func start(ctx context.Context, img *Image, shown string, limits Limits) (*process, error) {
	own, public, err := certificate()
	if err != nil {
		return nil, &FaultError{Plugin: shown, Call: "start", Reason: "no certificate for its connection: " +
			err.Error()}
	}
	dir, err := newRuntimeDir()
	if err != nil {
		fault := &FaultError{
			Plugin: shown, Call: "start", Reason: "no directory for its socket: " + err.Error(),
			Advice: setting.Textf("remove it, or set XDG_RUNTIME_DIR to a directory that only you can use"),
		}
		if TooManyFiles(err) {
			fault.Advice = CloseFiles
		}
		return nil, fault
	}
	p := &process{dir: dir}
	p.runner = newRunner(img, shown, limits)
	p.runner.certificate = public
	p.manager = plugin.NewClient(p.config(limits, own))
	connected := make(chan error, 1)
	go func() { connected <- p.connect() }()
	patience, done := patient(ctx, limits.Start)
	defer done()
	var hung bool
	select {
	case err = <-connected:
	case <-patience.Done():
		hung = ctx.Err() == nil
		p.abort()
		if err = <-connected; !hung {
			err = ctx.Err()
		}
	}
	if err == nil && !hung {
		return p, nil
	}
	p.stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, p.startFault(shown, err, hung, limits.Start)
}

func (p *process) config(limits Limits, own *tls.Certificate) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig: wire.Handshake(),
		Plugins:         plugin.PluginSet{wire.Name: wire.Plugin{}},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (gorunner.Runner, error) {
			p.runner.setUp(cmd.Env, dir)
			return p.runner, nil
		},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*own}, MinVersion: tls.VersionTLS12,
			ServerName: localhost},
		SkipHostEnv:      true,
		StartTimeout:     noTimeout, // start has a deadline
		SyncStdout:       &p.runner.words,
		SyncStderr:       &p.runner.words,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.dir.path},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithUnaryInterceptor(deadline(limits.Call)),
			grpc.WithStreamInterceptor(noBroker),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxReply)),
			grpc.WithInitialWindowSize(wire.Window),
			grpc.WithInitialConnWindowSize(wire.Window),
			grpc.WithReadBufferSize(wire.Buffer),
			grpc.WithWriteBufferSize(wire.Buffer),
		},
	}
}

// deadline puts a deadline on every call, go-plugin's own among them. It counts
// time in which the host runs; see [patient].
func deadline(d time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		ctx, cancel := patient(ctx, d)
		defer cancel()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err != nil && impatient(ctx) {
			return status.Error(codes.DeadlineExceeded, errImpatient.Error())
		}
		return err
	}
}

// noBroker refuses the stream of go-plugin's broker, which would serve further
// connections between host and plugin. There are none here, and the library
// keeps a goroutine for each that a plugin offers.
func noBroker(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return nil, status.Error(codes.Unimplemented, "no broker here")
	}
	return stream(ctx, desc, cc, method, opts...)
}

func (p *process) connect() error {
	rpc, err := p.manager.Client()
	if err != nil {
		return err
	}
	raw, err := rpc.Dispense(wire.Name)
	if err != nil {
		return err
	}
	p.client = raw.(*wire.Client)
	return nil
}

// abort ends the plugin at once.
func (p *process) abort() { p.runner.Kill(context.Background()) }

// stop asks the plugin to end, and kills what has not ended after stopGrace.
func (p *process) stop() {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		p.manager.Kill()
	}()
	within(asked, stopGrace)
	p.abort()
	p.dir.remove()
}

// startFault says why a plugin did not start, from what it printed and how it
// ended rather than from the library's error.
func (p *process) startFault(shown string, err error, hung bool, limit time.Duration) error {
	reason := printable(fmt.Sprint(err)) // go-plugin's can have several lines
	r := p.runner
	switch {
	case TooManyFiles(err):
		return &FaultError{Plugin: shown, Call: "start", Reason: reason, Advice: CloseFiles}
	case !r.runs():
		if refused := (*unconfinedError)(nil); errors.As(err, &refused) {
			return &FaultError{Plugin: shown, Call: "start", Reason: refused.Error(),
				Advice: setting.Textf("%s goes without", setting.To("sandbox", "default"))}
		}
		reason = whyNot(err)
	case r.exceeded() != nil:
		reason = r.exceeded().reason
	case hung:
		reason = fmt.Sprintf("it did not answer within %v", limit)
	case r.refusal() != nil:
		reason = r.refusal().Error()
	}
	if end := r.endedBy(); end != "" && !hung {
		reason += " (" + end + ")"
	}
	words := r.lastWords()
	return &FaultError{Plugin: shown, Call: "start", Reason: reason, Output: words, Advice: lacking(words)}
}

// noModule is what Python prints last where a module is not installed.
var noModule = regexp.MustCompile(`ModuleNotFoundError: No module named '([\w.]+)'`)

// lacking is what to do where a plugin's last words are that it is not at fault: this machine lacks what it needs.
func lacking(words string) setting.Text {
	if found := noModule.FindStringSubmatch(words); found != nil {
		return setting.Textf("the Python that runs the plugin has no module %s: install it for that Python", found[1])
	}
	return setting.Text{}
}
