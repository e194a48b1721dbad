package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk that fills up while an output is written keeps the old output and
// nothing else.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a file system of 256 KiB cannot be mounted (%v): run as root", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	for _, name := range []string{"out.csv", "out.npy", "out.parquet"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("old\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd, stderr := command(t, dir, "sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", "10000", "-o", name)
		code := exitOf(cmd.Run())
		line := stderr.String()
		if code != exitIO || strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "moe: "+name+": write failed, nothing was changed: no space left") {
			t.Errorf("%s: exit code %d, stderr %q", name, code, line)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "old\n" {
			t.Errorf("%s has changed: %v", name, err)
		}
		if left := temporary(t, dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestStandardOutputFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := t.TempDir()
	for file, content := range map[string]string{"model.json": smallModel, "data.csv": "x1\n1\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"predict", "model.json", "data.csv"}, {"predict", "model.json", "data.csv", "--json"}, {"version"}, {"version", "--json"}, {"--version"},
		{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
		nil, {"--help"}, {"help"}, {"help", "methods"}, {"fit", "--help"}, {"help", "fit"}, {"network"}, {"completion"}, {"plugin", "--help"}} {
		cmd, stderr := command(t, dir, args...)
		cmd.Stdout = full
		if code := exitOf(cmd.Run()); code != exitIO || !strings.HasPrefix(stderr.String(), "moe: ") || !strings.HasSuffix(stderr.String(), "no space left on device\n") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
}
