//go:build unix

package serve

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// TestMain plays the plugin that the environment names, or runs the tests.
func TestMain(m *testing.M) {
	f := sdk.Family{
		Name: "scaled", Version: "3", Doc: "c·z",
		Params: []sdk.Param{{Name: "c", Doc: "scale", Default: 2, Min: 1, Max: 4}, {Name: "free", Default: 0.5}},
		New: func(p sdk.Params) (sdk.Activation, error) {
			return sdk.Func{Name: "scaled", Version: "3", Params: p}, nil
		},
	}
	switch os.Getenv("SERVE_TEST") {
	case "good":
		Family(f)
	case "bad":
		f.Params[0].Default = 9
		Family(f)
	default:
		os.Exit(m.Run())
	}
}

func run(t *testing.T, mode string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{"SERVE_TEST=" + mode}, env...)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	return cmd, stderr
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestByHand starts a plugin without a host: it says what it is.
func TestByHand(t *testing.T) {
	cmd, stderr := run(t, "good")
	if code := exitCode(cmd.Run()); code != 64 {
		t.Errorf("exit code %d, want 64", code)
	}
	for _, want := range []string{
		`the activation "scaled", version 3`, "c·z", "--param c=2  scale, from 1 to 4", "--param free=0.5\n", "moe plugin trust",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it says %q, want a mention of %q", stderr, want)
		}
	}
}

// TestBadFamily serves a family whose default is out of range: no host gets to
// see it.
func TestBadFamily(t *testing.T) {
	h := wire.Handshake()
	cmd, stderr := run(t, "bad", h.MagicCookieKey+"="+h.MagicCookieValue)
	if code := exitCode(cmd.Run()); code != 70 || !strings.Contains(stderr.String(), "default 9 is outside [1, 4]") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestLifeline closes the pipe that a host would hold open: the plugin ends.
func TestLifeline(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h := wire.Handshake()
	cmd, stderr := run(t, "good", h.MagicCookieKey+"="+h.MagicCookieValue,
		wire.EnvLifeline+"=3", "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+t.TempDir())
	cmd.ExtraFiles = []*os.File{read}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	line := make([]byte, 4)
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "1|1|" {
		t.Fatalf("no handshake: %q, %v; stderr %q", line, err, stderr)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it ended with its lifeline held: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	write.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		t.Error("it outlived its lifeline by a minute")
	}
}
