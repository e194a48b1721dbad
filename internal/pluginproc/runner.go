package pluginproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/wire"
)

// runner runs a plugin's image for go-plugin, which knows it as a
// runner.Runner. What go-plugin does not do is done here: the plugin's
// standard input is empty, its environment a short list, its session its own, in
// a sandbox; it dies with the host; what it prints is always read, and only a
// proper first line reaches go-plugin.
type runner struct {
	image       *Image
	shown       string // the file's path as the user wrote it
	limits      Limits
	certificate []byte // the host's, in PEM
	env         []string
	socketDir   string

	words     words
	handshake io.ReadCloser // the plugin's first line, once checked, and the end
	refused   error         // why the first line did not pass; see lineDone
	lineDone  chan struct{}

	drained chan struct{} // closed when all of its stderr has been read

	done  chan struct{} // closed when the plugin has ended and was reaped
	state *os.ProcessState
	close sync.Once

	mu     sync.Mutex
	pid    int        // 0 before it runs
	body              // what this system holds and confines it by
	killed bool       // by us
	excess *excess    // why, if it was for what it did
	pipes  []*os.File // our ends of its pipes
}

// newRunner prepares to run img.
func newRunner(img *Image, shown string, limits Limits) *runner {
	return &runner{image: img, shown: shown, limits: limits, body: newBody(), lineDone: make(chan struct{}),
		drained: make(chan struct{}), done: make(chan struct{})}
}

// setUp takes what go-plugin wants in the plugin's environment, and the
// directory where the plugin's socket must be.
func (r *runner) setUp(env []string, socketDir string) {
	for _, name := range passEnv {
		if v, ok := os.LookupEnv(name); ok {
			r.env = append(r.env, name+"="+v)
		}
	}
	r.env = append(r.env, env...)
	r.env = append(r.env, fmt.Sprintf("%s=%s", envCertificate, r.certificate))
	if lifelineFD > 0 {
		r.env = append(r.env, fmt.Sprintf("%s=%d", wire.EnvLifeline, lifelineFD))
	}
	r.socketDir = socketDir
}

// Start starts the plugin.
func (r *runner) Start(context.Context) error {
	var files []*os.File
	closeAll := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll()
			return err
		}
		files = append(files, read, write)
	}
	outR, outW, errR, errW, lifeR, lifeW := files[0], files[1], files[2], files[3], files[4], files[5]
	started := make(chan error)
	go r.hold(outW, errW, lifeR, started)
	err := <-started
	outW.Close()
	errW.Close()
	lifeR.Close()
	if err != nil {
		closeAll()
		close(r.done)
		return err
	}
	r.mu.Lock()
	r.pipes = []*os.File{outR, errR, lifeW}
	r.mu.Unlock()
	handshake, pass := io.Pipe()
	r.handshake = handshake
	line := make(chan string, 1)
	go firstLine(outR, line, &r.words)
	go func() {
		defer close(r.drained)
		io.Copy(&r.words, errR)
	}()
	go r.check(line, pass)
	go r.watch()
	return nil
}

// excess is why a plugin was ended for what it did, and what to do; zero where the
// fault is its own.
type excess struct {
	reason string
	advice setting.Text
}

// tooLarge is the reason for which a plugin is ended that uses too much memory.
func (r *runner) tooLarge() *excess {
	return &excess{fmt.Sprintf("it used more than %d MiB of memory and was ended", r.limits.RSS>>20),
		setting.Textf("it leaks, or needs more (%s)", setting.Key("plugin-max-rss"))}
}

// exceeded returns what the plugin did that it was ended for, or nil.
func (r *runner) exceeded() *excess {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excess
}

// run notes that the plugin runs, and ends it if it was killed before it did.
func (r *runner) run(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid = pid
	if r.killed {
		r.killSession()
	}
}

// unconfinedError refuses to start a plugin without what a strict sandbox has.
type unconfinedError struct{ missing []string }

func (e *unconfinedError) Error() string {
	return "the sandbox is not whole here: " + strings.Join(e.missing, "; ")
}

// check passes the first line on to go-plugin if it is a handshake as we want
// it, and otherwise says why not and ends the plugin. What it says stands before
// go-plugin sees an end.
func (r *runner) check(line <-chan string, pass io.WriteCloser) {
	defer pass.Close()
	first, ok := <-line
	if !ok {
		r.refused = errors.New("it ended without a word of the handshake on stdout: is it a plugin for moe?")
		close(r.lineDone)
		r.ended(endGrace) // go-plugin kills it next, and how it ended is lost
		return
	}
	r.refused = checkHandshake(first, r.socketDir)
	close(r.lineDone)
	if r.refused != nil {
		r.kill()
		return
	}
	io.WriteString(pass, first+"\n")
}

// checkHandshake checks the line
//
//	1|PROTOCOL|NETWORK|ADDRESS|grpc|CERTIFICATE
//
// with an address that is this host's alone; dir is where its socket must be. Without the certificate there is no
// mutual TLS.
func checkHandshake(line, dir string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 4 || f[0] != "1" {
		return fmt.Errorf("it printed %s on stdout before the handshake; a plugin prints to stderr", quote(line))
	}
	if f[1] != strconv.Itoa(wire.Version) {
		return fmt.Errorf("it speaks version %s of the protocol, this program speaks %d: one of them must be updated",
			quote(f[1]), wire.Version)
	}
	if err := checkAddress(f[2], f[3], dir); err != nil {
		return err
	}
	if len(f) < 6 || f[4] != "grpc" || f[5] == "" {
		return errors.New("it offers no gRPC with mutual TLS")
	}
	return nil
}

// Wait waits for the plugin's end.
func (r *runner) Wait(context.Context) error {
	<-r.done
	if r.state == nil || r.state.Success() {
		return nil
	}
	return errors.New(r.state.String())
}

// Kill ends the plugin and its session, waiting at most killGrace, and closes its
// output, which a process that left the session may still hold open.
// A plugin that does not run yet ends as soon as it does.
func (r *runner) Kill(context.Context) error {
	if !r.kill() {
		return nil
	}
	r.ended(killGrace)
	r.close.Do(func() {
		r.drain()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.pipes {
			p.Close()
		}
	})
	return nil
}

// kill ends the plugin's session and reports whether there is one.
func (r *runner) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended(0) {
		r.killed = true
		if r.pid != 0 {
			r.killSession()
		}
	}
	return r.pid != 0
}

// end ends a plugin for a reason that is told.
func (r *runner) end(why excess) {
	r.mu.Lock()
	if r.excess == nil {
		r.excess = &why
	}
	r.mu.Unlock()
	r.kill()
}

// runs reports whether the plugin could be started.
func (r *runner) runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid != 0
}

// Stdout yields the first line and ends.
func (r *runner) Stdout() io.ReadCloser { return r.handshake }

// Stderr is empty: go-plugin's parser of log lines can panic on what a plugin
// writes there.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the path of the plugin's file as the user wrote it.
func (r *runner) Name() string { return r.shown }

// ID returns the process id.
func (r *runner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strconv.Itoa(r.pid)
}

// Diagnose adds nothing; see end.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address as it is; checkHandshake has accepted it.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin returns the address as it is.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// refusal returns why the first line was refused, or nil. It waits for the line:
// of a plugin that runs no more it ends with the plugin's output.
func (r *runner) refusal() error {
	if within(r.lineDone, endGrace) {
		return r.refused
	}
	return nil // somebody else holds its output open
}

// ended waits up to d for the plugin's end and reports it.
func (r *runner) ended(d time.Duration) bool { return within(r.done, d) }

// lastWords returns the last lines that the plugin wrote: of one that has ended
// all that it wrote, unless somebody else holds its stderr open.
func (r *runner) lastWords() string {
	if r.runs() && r.ended(0) {
		r.drain()
	}
	return r.words.last()
}

// drain waits until all of the plugin's stderr has been read, or somebody else
// holds it open.
func (r *runner) drain() { within(r.drained, endGrace) }

// endedBy returns how the plugin ended, such as "exit status 2", or "" if it
// has not or was killed by us.
func (r *runner) endedBy() string {
	if !r.ended(0) || r.state == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return ""
	}
	return r.state.String()
}
