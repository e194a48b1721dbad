//go:build linux

// Command badplugin is a plugin with every fault that a host must survive. It
// plays the one that it is called by: plugin-hang hangs. The tests of
// pluginproc, of the catalog and of the command build and run it.
package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/wire"
	pb "github.com/gatedlearning/moe/internal/wire/activationpb"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/serve"
)

// The parent-death signal belongs to the main thread, where immortal must be to
// refuse it.
func init() { runtime.LockOSThread() }

func main() {
	mode := strings.TrimPrefix(filepath.Base(os.Args[0]), "plugin-")
	play, ok := modes[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such mode")
		os.Exit(99)
	}
	if mode != "immortal" && mode != "leader-ends" {
		runtime.UnlockOSThread()
	}
	play()
}

// modes are plugins, most of them bad, by name.
var modes = map[string]func(){
	"relu":      func() { serve.Family(relu.Family) },
	"leakyrelu": func() { serve.Family(leakyrelu.Family) },
	"sigmoid":   func() { serve.Family(sigmoid.Family) },
	"double":    func() { serveDouble(nil) },
	"even": func() {
		serve.Activation(sdk.Func{Name: "even", G: math.Abs, DG: func(z float64) float64 { return math.Copysign(1, z) }, Kinks: []float64{0}})
	},
	"constant": func() {
		serve.Activation(sdk.Func{Name: "constant", G: func(float64) float64 { return 1 }, DG: func(float64) float64 { return 0 }})
	},
	"flat": func() { // constant on most of the line
		serve.Activation(sdk.Func{Name: "flat", G: func(z float64) float64 { return max(z-1.8, 0) }, DG: func(z float64) float64 {
			if z > 1.8 {
				return 1
			}
			return 0
		}, Kinks: []float64{1.8}})
	},

	// Faults before the handshake.
	"silent-exit": func() {},
	"crash-at-start": func() {
		fmt.Fprintln(os.Stderr, "cannot find my licence")
		os.Exit(3)
	},
	"no-module": func() {
		fmt.Fprintln(os.Stderr, "  import grpc\nModuleNotFoundError: No module named 'grpc'")
		os.Exit(1)
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
	// Of a slope that they are asked for: nothing, and another one.
	"silent-of-slope": func() { serveServer(server{describe: sloping, configure: &pb.ConfigureResponse{Name: "double"}}) },
	"other-slope": func() {
		serveServer(server{describe: sloping, configure: &pb.ConfigureResponse{Name: "double", Params: map[string]float64{"slope": 7}}})
	},
	"describe-hangs":  func() { serveServer(server{hang: "Describe"}) },
	"configure-hangs": func() { serveServer(server{hang: "Configure"}) },
	"nan-kink": func() {
		serveServer(server{configure: &pb.ConfigureResponse{Name: "double", Kinks: []float64{math.NaN()}}})
	},

	// Faults of calls.
	"short": func() { serveServer(server{eval: func(z []byte) []byte { return z[8:] }}) },
	"long":  func() { serveServer(server{eval: func(z []byte) []byte { return append(z, z...) }}) },
	"huge":  func() { serveServer(server{eval: func([]byte) []byte { return make([]byte, 16<<20) }}) },
	"nan":   func() { serveDouble(func(z float64) float64 { return math.Sqrt(z) }) },
	"inf": func() {
		serveDouble(func(z float64) float64 {
			if z > 2.5 {
				return math.Inf(1)
			}
			return z
		})
	},
	"errors": func() { serve.Activation(double{eval: func() error { return fmt.Errorf("out of cheese\x1b[2J") }}) },
	"panics": func() { serveDouble(func(float64) float64 { panic("boom") }) },
	"crash":  func() { serveDouble(func(float64) float64 { os.Exit(4); return 0 }) },
	"crash-in-goroutine": func() {
		serveDouble(func(float64) float64 { go func() { panic("lost a thread") }(); time.Sleep(time.Hour); return 0 })
	},
	"null-pointer": func() {
		serveDouble(func(float64) float64 { go func() { *(*int)(nil) = 1 }(); time.Sleep(time.Hour); return 0 })
	},
	"hang":  func() { serveDouble(func(float64) float64 { select {} }) },
	"grows": func() { serveDouble(func(z float64) float64 { keep(1 << 40); return z }) },
	// Those that hold memory where no page table has it; g is how many MiB they got.
	"hoards-shared": func() { hoard(plugintest.HoardShared) }, "hoards-sockets": func() { hoard(plugintest.HoardSockets) },
	"hoards-flights": func() { hoard(plugintest.HoardFlights) }, "hoards-pipes": func() { hoard(plugintest.HoardPipes) },
	"leader-ends": func() { // its first thread, with which the kernel's word of its memory goes
		go func() { serveDouble(func(z float64) float64 { keep(300); return 2 * z }) }()
		time.Sleep(100 * time.Millisecond)
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	},
	"page-tables": func() { // 256 MiB of them, for addresses of which all is the kernel's page of zeros
		serveDouble(func(z float64) float64 {
			const size = 128 << 30
			data, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
			check(err)
			check(unix.Madvise(data, unix.MADV_NOHUGEPAGE))
			for i := 0; i < size; i += 2 << 20 {
				z += float64(data[i])
			}
			time.Sleep(time.Minute)
			return z
		})
	},
	"crash-once":   func() { serveDouble(crashOnce(1)) },
	"crash-thrice": func() { serveDouble(crashOnce(3)) },
	// A ReLU of which the first processes die at their third batch.
	"dies-once":   func() { serve.Activation(&mortal{deaths: 1}) },
	"dies-thrice": func() { serve.Activation(&mortal{deaths: 3}) },
	"dies-always": func() { serve.Activation(&mortal{deaths: 99}) },
	// Those that are another plugin after their first death.
	"other-version": func() { serve.Activation(&mortal{deaths: 1, version: lives()}) },
	"renamed":       func() { serve.Activation(&mortal{deaths: 1, name: "relu" + lives()}) },
	"drifts": func() { // by one unit in the last place, at each call
		var calls float64
		serve.Activation(double{g: func(z float64) float64 { return 2 * z }, after: func(dst []float64) {
			calls++
			for i := range dst {
				dst[i] *= 1 + calls*0x1p-52
			}
		}})
	},
	"turns": func() { // becomes another function after a hundred batches
		serve.Activation(&turncoat{eval: 1.5, deriv: 1, after: 100})
	},
	"turns-late": func() { // after a hundred and fifty
		serve.Activation(&turncoat{eval: 1.5, deriv: 1, after: 150})
	},
	"turns-derivative": func() { // whose derivative grows by half
		serve.Activation(&turncoat{eval: 1, deriv: 1.5, after: 100})
	},
	"relu-that-is-tanh": func() {
		serve.Activation(sdk.Func{
			Name: "relu", Version: "1", G: math.Tanh, DG: func(z float64) float64 { return 1 / (math.Cosh(z) * math.Cosh(z)) },
		})
	},
	"relu-to-four": func() { // in N(0,1) nearly a ReLU
		serve.Activation(sdk.Func{
			Name: "relu", Version: "1", Kinks: []float64{0, 4},
			G: func(z float64) float64 { return min(max(z, 0), 4) },
			DG: func(z float64) float64 {
				if z > 0 && z < 4 {
					return 1
				}
				return 0
			},
		})
	},
	"mish": func() { // e^z overflows
		serve.Activation(sdk.Func{
			Name: "mish", G: func(z float64) float64 { e := math.Exp(z); return z * ((1+e)*(1+e) - 1) / ((1+e)*(1+e) + 1) },
			DG: func(z float64) float64 {
				e := math.Exp(z)
				n := (1+e)*(1+e) + 1
				return ((1+e)*(1+e)-1)/n + z*4*e*(1+e)/(n*n)
			},
		})
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
	"cap": func() { // so does where g ends to rise
		data, _ := os.ReadFile(os.Args[0] + ".table")
		serveDouble(func(z float64) float64 { return min(z, float64(len(data))) })
	},
	"moments-nan": func() { serve.Activation(badMoments{}) },
	"refuses":     func() { serveServer(server{code: codes.Internal}) },
	"canceled":    func() { serveServer(server{code: codes.Canceled}) },
	"deadline":    func() { serveServer(server{code: codes.DeadlineExceeded}) },
	"unavailable": func() { serveServer(server{code: codes.Unavailable}) },
	"claims-2gib": func() { // a reply that says it is so long, and that never comes
		serveRaw(func(w http.ResponseWriter) {
			w.Write(binary.BigEndian.AppendUint32([]byte{0}, 1<<31))
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
		})
	},
	"drips": func() { // a reply of two values, a byte at a time
		serveRaw(func(w http.ResponseWriter) {
			for _, b := range append([]byte{0, 0, 0, 0, 18, 10, 16}, make([]byte, 16)...) {
				w.Write([]byte{b})
				w.(http.Flusher).Flush()
				time.Sleep(500 * time.Millisecond)
			}
		})
	},

	// Lies: a ReLU that is one, and says something else about itself.
	"lies-derivative": func() {
		serve.Activation(sdk.Func{
			Name: "double", Version: "1",
			G: func(z float64) float64 { return 2 * z }, DG: func(float64) float64 { return 2.001 },
		})
	},
	"lies-between": func() { // about g′ in long batches, where rows asked for again by a rule would not show it
		serve.Activation(lyingDerivative{func(dst, _ []float64) {
			n := len(dst)
			if n <= 256 {
				return
			}
			for i := range dst {
				if (n-1-i)%((n+63)/64) != 0 {
					dst[i] *= 1.3
				}
			}
		}})
	},
	"lies-beside": func() { // about g′ everywhere but at the points where a host compares it before a fit
		points := make(map[float64]bool)
		for i := range 96 {
			points[3*math.Sqrt2*math.Erfinv((2*float64(i)+1)/96-1)] = true
		}
		serve.Activation(lyingDerivative{func(dst, z []float64) {
			for i, v := range z {
				if !points[v] {
					dst[i] *= 1.3
				}
			}
		}})
	},
	"lies-moments": func() {
		serve.Activation(liar{moments: func(m *sdk.Moments) { m.Value[1][1] *= 1 + 1e-6 }})
	},
	"lies-with-error": func() {
		serve.Activation(liar{moments: func(m *sdk.Moments) { m.Value[4][4], m.Error[4][4] = 100, 1000 }})
	},
	"lies-system": func() { // the matrix printed in 002
		serve.Activation(lyingSystem{func(s *sdk.System) {
			for i := range s.Matrix {
				s.Matrix[i][1] += s.Sigma * s.Sigma
			}
		}})
	},
	"lies-late": func() { // at noise levels that nobody verifies at
		serve.Activation(lyingSystem{func(s *sdk.System) {
			if s.Sigma != 0 && s.Sigma != 0.05 && s.Sigma != 0.5 {
				s.C4[1] += 0.01
			}
		}})
	},

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
	"floods-broker": func() { // go-plugin's host keeps a goroutine for each of these
		serveServer(server{streams: true, eval: func(z []byte) []byte { return timesTwo(z) }})
	},
	"slow": func() {
		serveDouble(func(z float64) float64 { return 2 * z }, func() { time.Sleep(3 * time.Millisecond) })
	},
	"pauses": func() { serveDouble(nil, pausing(0)) },
	"snail":  func() { serveDouble(nil, pausing(100*time.Millisecond)) }, // no fit with it is over before somebody ends it
	"leaves-fifo": func() { // where the next host looks for what was left behind
		base := filepath.Dir(filepath.Dir(os.Getenv(plugin.EnvUnixSocketDir)))
		syscall.Mkfifo(filepath.Join(base, "fifo"), 0o600)
		serveDouble(nil)
	},
	"litters": func() {
		dir := filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), "a", "b")
		os.MkdirAll(filepath.Join(dir, "c"), 0o700)
		os.Chmod(dir, 0)
		serveDouble(nil)
	},
	"locks": func() { // all that it can open in a directory; its version says how many it got
		dir, _ := os.ReadFile(os.Args[0] + ".dir")
		held := 0
		names, _ := filepath.Glob(filepath.Join(string(dir), "*"))
		for _, name := range append(names, string(dir)) {
			for _, mode := range []int{unix.O_RDONLY, unix.O_WRONLY} {
				if fd, err := unix.Open(name, mode, 0); err == nil && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
					held++
					break
				}
			}
		}
		serve.Activation(sdk.Func{Name: "locks", Version: fmt.Sprintf("%d locks", held), G: func(z float64) float64 { return 2 * z }, DG: func(float64) float64 { return 2 }})
	},
	"hands-over": func() { // its own file to the host, by the connection that they have
		serveDouble(func(z float64) float64 {
			file, err := os.Open(os.Args[0])
			check(err)
			for fd := range 64 {
				if _, err := unix.Getpeername(fd); err == nil {
					unix.Sendmsg(fd, []byte("x"), unix.UnixRights(int(file.Fd()), int(file.Fd())), nil, unix.MSG_NOSIGNAL)
				}
			}
			return 2 * z
		})
	},
	"makes-names": func() {
		serveDouble(func(z float64) float64 {
			for i := range 1000 {
				if f, err := os.Create(filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), strconv.Itoa(i))); err == nil {
					f.Close()
				}
			}
			time.Sleep(time.Minute)
			return z
		})
	},
	"immortal": func() { // neither the parent's death nor the lifeline ends it
		syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, 0, 0)
		os.Unsetenv(wire.EnvLifeline)
		child("child", false)
		go func() { serveDouble(nil) }()
		hold, _ := os.OpenFile("/proc/self/fd/4", os.O_WRONLY, 0) // the lifeline never ends
		defer hold.Close()
		select {}
	},
	"open-files": func() {
		serve.Activation(double{eval: func() error {
			var open []string
			for fd := 3; fd < 64; fd++ {
				if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(link, "/") {
					open = append(open, link)
				}
			}
			return fmt.Errorf("open files: %q", open)
		}})
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
	"attacks": func() { // g(i) is the kernel's answer to the i-th attack, 0 where it succeeds
		answers := map[float64]float64{}
		serveDouble(func(z float64) float64 {
			i := int(z)
			if _, ok := answers[z]; !ok && i >= 0 && i < len(plugintest.Attacks) && z == float64(i) {
				answers[z] = float64(plugintest.Attacks[i].Answer(os.Args[0]))
			}
			return answers[z]
		})
	},
	"leaves-group": func() { // kill(−pid) would find nobody
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{filepath.Join(filepath.Dir(os.Args[0]), "child", "plugin-sleeper")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if cmd.Start() == nil {
			syscall.Setpgid(0, cmd.Process.Pid)
		}
		serveDouble(nil)
	},
	"terminal": func() {
		for _, name := range []string{"/dev/tty", os.Args[0] + ".tty"} {
			if link, err := os.ReadFile(name); err == nil && name != "/dev/tty" {
				name = string(link)
			}
			if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
				f.WriteString("\x1b]0;owned\x07passphrase: ")
				f.Close()
			}
		}
		serveDouble(nil)
	},
	"threads": func() { // more than a session may have
		serveDouble(func(z float64) float64 {
			for range 1100 {
				go func() {
					runtime.LockOSThread()
					time.Sleep(time.Hour)
				}()
			}
			time.Sleep(time.Hour)
			return z
		})
	},
	"children-grow": func() { // of which none uses more than the plugin may
		serveDouble(func(z float64) float64 {
			for range 3 {
				cmd := exec.Command("/proc/self/exe")
				cmd.Args = []string{filepath.Join(filepath.Dir(os.Args[0]), "child", "plugin-60mib")}
				cmd.Start()
			}
			time.Sleep(time.Hour)
			return z
		})
	},
	"60mib": func() {
		page := make([]byte, 60<<20)
		for i := range page {
			page[i] = 1
		}
		time.Sleep(time.Hour)
		runtime.KeepAlive(page)
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

// keep takes so many MiB of memory, and a second.
func keep(mebibytes int) {
	var hoard [][]byte
	for range mebibytes {
		page := make([]byte, 1<<20)
		for i := range page {
			page[i] = 1
		}
		hoard = append(hoard, page)
	}
	time.Sleep(time.Second)
	runtime.KeepAlive(hoard)
}

// hoard serves how many MiB are held in a way.
func hoard(way func(most int) int) {
	held := sync.OnceValue(func() int {
		n := way(400)
		time.Sleep(300 * time.Millisecond) // a few looks of the watch
		return n
	})
	serveDouble(func(float64) float64 { return float64(held()) })
}

// double is 2z, with what may go wrong in it.
type double struct {
	g      func(float64) float64
	after  func(dst []float64)
	before func()
	eval   func() error
}

func (double) Info() sdk.Info { return sdk.Info{Name: "double", Version: "1"} }

func (d double) Eval(_ context.Context, dst, z []float64) error {
	if d.eval != nil {
		return d.eval()
	}
	if d.before != nil {
		d.before()
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

// serveDouble serves g, or 2z where it is nil.
func serveDouble(g func(float64) float64, before ...func()) {
	d := double{g: g}
	if g == nil {
		d.g = func(z float64) float64 { return 2 * z }
	}
	if len(before) > 0 {
		d.before = before[0]
	}
	serve.Activation(d)
}

// liar is a ReLU with moments of its own that are changed.
type liar struct{ moments func(*sdk.Moments) }

func (liar) Info() sdk.Info { return honest().Info() }

func (liar) Eval(ctx context.Context, dst, z []float64) error { return honest().Eval(ctx, dst, z) }

func (liar) Deriv(ctx context.Context, dst, z []float64) error { return honest().Deriv(ctx, dst, z) }

func (l liar) Moments(ctx context.Context) (sdk.Moments, error) {
	m, err := sdk.MomentsOf(ctx, honest())
	if l.moments != nil {
		l.moments(&m)
	}
	return m, err
}

// lyingSystem is a ReLU with a system of its own that is changed.
type lyingSystem struct{ change func(*sdk.System) }

func (lyingSystem) Info() sdk.Info { return honest().Info() }

func (lyingSystem) Eval(ctx context.Context, dst, z []float64) error {
	return honest().Eval(ctx, dst, z)
}

func (lyingSystem) Deriv(ctx context.Context, dst, z []float64) error {
	return honest().Deriv(ctx, dst, z)
}

func (l lyingSystem) System(ctx context.Context, sigma float64) (sdk.System, error) {
	s, err := sdk.SystemOf(ctx, honest(), sigma)
	l.change(&s)
	return s, err
}

// lyingDerivative is a ReLU whose values of g′ are changed by the batch.
type lyingDerivative struct{ change func(dst, z []float64) }

func (l lyingDerivative) Info() sdk.Info {
	return sdk.Info{Name: "half", Version: "1", Kinks: []float64{0}}
}

func (l lyingDerivative) Eval(ctx context.Context, dst, z []float64) error {
	return honest().Eval(ctx, dst, z)
}

func (l lyingDerivative) Deriv(ctx context.Context, dst, z []float64) error {
	z = append([]float64(nil), z...) // dst may be z
	err := honest().Deriv(ctx, dst, z)
	l.change(dst, z)
	return err
}

func honest() sdk.Activation {
	act, err := relu.Family.Activation(nil)
	if err != nil {
		panic(err)
	}
	return act
}

// mortal is a ReLU of which the first processes die at their third batch; what
// counts them is a file beside the plugin's.
type mortal struct {
	liar
	deaths        int
	name, version string // instead of the ReLU's
	calls         atomic.Int32
}

func (m *mortal) Info() sdk.Info {
	info := honest().Info()
	info.Name, info.Version = cmp.Or(m.name, info.Name), cmp.Or(m.version, info.Version)
	return info
}

// lives counts the processes of the plugin so far, this one included.
func lives() string {
	died, _ := os.ReadFile(os.Args[0] + ".crashes")
	return strconv.Itoa(1 + len(died))
}

func (m *mortal) Eval(ctx context.Context, dst, z []float64) error {
	if m.calls.Add(1) == 3 && more(m.deaths) {
		os.Exit(5)
	}
	return honest().Eval(ctx, dst, z)
}

// more counts the deaths up to n.
func more(n int) bool {
	count := os.Args[0] + ".crashes"
	done, _ := os.ReadFile(count)
	if len(done) >= n {
		return false
	}
	return os.WriteFile(count, append(done, 'x'), 0o600) == nil
}

// turncoat is a ReLU that is scaled after some batches.
type turncoat struct {
	liar
	after             int32
	eval, deriv       float64
	evals, derivative atomic.Int32
}

func (c *turncoat) Eval(ctx context.Context, dst, z []float64) error {
	return c.turned(ctx, honest().Eval, &c.evals, c.eval, dst, z)
}

func (c *turncoat) Deriv(ctx context.Context, dst, z []float64) error {
	return c.turned(ctx, honest().Deriv, &c.derivative, c.deriv, dst, z)
}

func (c *turncoat) turned(ctx context.Context, of func(context.Context, []float64, []float64) error, calls *atomic.Int32, by float64, dst, z []float64) error {
	err := of(ctx, dst, z)
	if calls.Add(1) > c.after {
		for i := range dst {
			dst[i] *= by
		}
	}
	return err
}

type badMoments struct{ double }

func (badMoments) Moments(context.Context) (sdk.Moments, error) {
	var m sdk.Moments
	m.Value[4][4] = math.NaN()
	return m, nil
}

// pausing stands in the tenth batch, says so by a thread's name, and goes on when it
// may; every batch after that takes so long.
func pausing(later time.Duration) func() {
	var batches atomic.Int32
	call := func(name string) {
		unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.StringData(name+"\x00"))), 0, 0, 0)
	}
	return func() {
		switch n := batches.Add(1); {
		case n > 10:
			time.Sleep(later)
		case n == 10:
			runtime.LockOSThread()
			call(plugintest.Pausing)
			for {
				if _, err := os.Stat(os.Args[0] + ".on"); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			call("badplugin")
			runtime.UnlockOSThread()
		}
	}
}

// crashOnce doubles, but the first n processes crash at the value 77.
func crashOnce(n int) func(float64) float64 {
	return func(z float64) float64 {
		if z == 77 && more(n) {
			os.Exit(5)
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
	code      codes.Code // of the answer to Eval, where it is not OK
	hang      string     // the method that never answers
	streams   bool       // floods the host through go-plugin's broker
}

func (s server) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	if s.hang == "Describe" {
		select {}
	}
	if s.describe != nil {
		return s.describe, nil
	}
	return &pb.DescribeResponse{Name: "double", Version: "1"}, nil
}

func (s server) Configure(context.Context, *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if s.hang == "Configure" {
		select {}
	}
	if s.configure != nil {
		return s.configure, nil
	}
	return &pb.ConfigureResponse{Name: "double", Version: "1"}, nil
}

func (s server) Eval(_ context.Context, req *pb.BatchRequest) (*pb.BatchResponse, error) {
	if s.code != codes.OK {
		return nil, status.Error(s.code, "no")
	}
	return &pb.BatchResponse{Values: s.eval(req.Z)}, nil
}

func (s server) Deriv(_ context.Context, req *pb.BatchRequest) (*pb.BatchResponse, error) {
	two := make([]byte, 0, len(req.Z))
	for range len(req.Z) / 8 {
		two = binary.LittleEndian.AppendUint64(two, math.Float64bits(2))
	}
	return &pb.BatchResponse{Values: two}, nil
}

// sloping describes a family with a parameter.
var sloping = &pb.DescribeResponse{Name: "double", Parameters: []*pb.Parameter{{Name: "slope", Default: 1}}}

func timesTwo(z []byte) []byte {
	out := make([]byte, 0, len(z))
	for ; len(z) > 0; z = z[8:] {
		v := math.Float64frombits(binary.LittleEndian.Uint64(z))
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(2*v))
	}
	return out
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
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			if s.streams {
				opts = append(opts, grpc.StreamInterceptor(flood))
			}
			return plugin.DefaultGRPCServer(opts)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// flood answers the stream of go-plugin's broker with endless offers of
// connections, each of another number.
func flood(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !strings.HasSuffix(info.FullMethod, "GRPCBroker/StartStream") {
		return next(srv, stream)
	}
	for id := uint64(1); ; id++ {
		offer := new(emptypb.Empty)
		offer.ProtoReflect().SetUnknown(binary.AppendUvarint([]byte{8}, id)) // field 1, service_id
		if err := stream.SendMsg(offer); err != nil {
			return err
		}
	}
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
	if err := cmd.Start(); err != nil && !setsid { // which the sandbox refuses
		panic(err)
	}
}

// certificate is a self-signed one, in base64 without padding; nobody here has
// its key.
const certificate = "MIIBMDCB16ADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMTCWxvY2FsaG9zdDAgFw03MDAxMDEwMDAwMDBaGA8yMjAwMDEwMTAwMDAwMFowFDESMBAGA1UEAxMJbG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEXn22LF7mIpO6Lgui1BWJZpOznyuMOGEl0VOu1ifRLrA/xmzRf1OygchzpgPfq/tlp645w3Dk8zmGVT8Ud0y/6MYMBYwFAYDVR0RBA0wC4IJbG9jYWxob3N0MAoGCCqGSM49BAMCA0gAMEUCIHrmbRbJG6w+K/AmwAu9q+ZdZZh8tRDtUe2UOtnY81W2AiEAlAk8GJIMsyoCFPvdMmkivw24OS/QrumkSBnCIwnObhA"
