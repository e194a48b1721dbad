//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/testslow"
)

// Killed while it writes, a command leaves the old output whole, whatever the
// format, and the next run writes its own.
func TestKilledWhileWriting(t *testing.T) {
	for _, name := range []string{"out.csv", "out.npy", "out.parquet"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		sample := func(n string) []string {
			return []string{"sample", "--activation", "relu", "--k", "2", "--d", "10", "--n", n, "-o", name}
		}
		first, _ := command(t, dir, sample("500")...)
		if err := first.Run(); err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cmd, _ := command(t, dir, sample("100000000")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "bytes in the temporary file", func() bool { return writing(t, cmd, dir) })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("a killed command ended well")
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(old) {
			t.Errorf("%s has changed: %v", name, err)
		}
		if left := temporary(t, dir); runtime.GOOS == "linux" && len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
		again, stderr := command(t, dir, sample("600")...)
		if err := again.Run(); err != nil {
			t.Errorf("%s: the next run: %v, %s", name, err, stderr)
		}
		if now, err := os.ReadFile(path); err != nil || len(now) <= len(old) {
			t.Errorf("%s: the next run wrote %d bytes: %v", name, len(now), err)
		}
	}
}

// A shard that is killed, before it has anything to write or when all is written but the
// name, leaves no part, or that of the pass before; merging without it
// names it or says that it is of another model, and rerun it gives what it would have.
func TestKilledShard(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	run := func(want int, says string, args ...string) {
		t.Helper()
		cmd, stderr := command(t, dir, args...)
		if code := exitOf(cmd.Run()); code != want || !strings.Contains(stderr.String(), says) {
			t.Fatalf("%v: exit code %d, %s", args, code, stderr)
		}
	}
	run(exitYes, "", "sample", "--activation", "identity", "--k", "2", "--d", "10", "--n", "200000", "-o", "data.npy")
	shard := func(i string) []string {
		return []string{"moments", "data.npy", "--subsample", "1000", "--shard", i + "/2", "-o", "first-" + i + ".moments"}
	}
	run(exitYes, "", shard("1")...)
	killed(t, dir, shard("2")...)
	if left := temporary(t, dir); runtime.GOOS == "linux" && len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "first-2.moments")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a shard that was killed has a part: %v", err)
	}
	run(exitData, "of the 2 parts one is missing: 2", "merge", "first-1.moments", "-o", "first.moments")
	run(exitYes, "", shard("2")...)
	run(exitYes, "", "merge", "first-1.moments", "first-2.moments", "-o", "first.moments")
	run(exitYes, "", "moments", "data.npy", "--subsample", "1000", "-o", "one.moments")
	run(exitYes, "", "merge", "one.moments", "-o", "whole.moments")
	if read(t, dir, "first.moments") != read(t, dir, "whole.moments") {
		t.Error("the sums of all parts are others where one was killed and rerun")
	}

	run(exitYes, "", "fit", "--moments", "first.moments", "--method", "auto", "--activation", "identity", "--k", "2", "-o", "at.json")
	newton := func(i string) []string {
		return []string{"newton", "data.npy", "--shard", i + "/2", "--at", "at.json", "-o", "part-" + i + ".newton"}
	}
	merge := []string{"merge", "part-1.newton", "part-2.newton", "-o", "at.json"}
	run(exitYes, "", newton("1")...)
	run(exitYes, "", newton("2")...)
	run(exitYes, "", merge...)
	old, at := read(t, dir, "part-2.newton"), read(t, dir, "at.json")
	run(exitYes, "", newton("1")...)
	killed(t, dir, newton("2")...)
	if read(t, dir, "part-2.newton") != old {
		t.Error("the part of the pass before is another")
	}
	run(exitData, "part-2.newton: it does not go with part-1.newton: they are at different models", merge...)
	if read(t, dir, "at.json") != at {
		t.Error("a merge that failed has changed the model")
	}
	run(exitYes, "", newton("2")...)
	run(exitYes, "", merge...)
}

// killed runs a command that is killed before its first operation on its output, the
// last of its arguments, and again when all is written and synced that the name is to
// stand for.
func killed(t *testing.T, dir string, args ...string) {
	t.Helper()
	out := args[len(args)-1]
	other := append(slices.Clone(args[:len(args)-1]), "other-"+out)
	_, _, operations := broken(t, dir, failAt, 0, other)
	if err := os.Remove(filepath.Join(dir, "other-"+out)); err != nil {
		t.Fatal(err)
	}
	written := 1 + slices.IndexFunc(operations, func(op string) bool { return strings.HasPrefix(op, string(atomicfile.Link)) })
	if written == 0 { // where files have names from their beginning
		written = len(operations)
	}
	for _, n := range []int{1, written} {
		code, line, made := broken(t, dir, killAt, n, args)
		if code != -1 || len(made) != n {
			t.Fatalf("%v: exit code %d after %d operations, want it killed before number %d of %d: %s", args, code, len(made), n, len(operations), line)
		}
	}
}

// Two fits that write one model file leave the whole model of one of them.
func TestTwoFitsOfOneFile(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd, stderr := command(t, dir, args...)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v, %s", args, err, stderr)
		}
	}
	run("sample", "--activation", "identity", "--k", "2", "--d", "5", "--n", "2000", "-o", "data.npy")
	fit := func(seed, out string) []string {
		return []string{"fit", "data.npy", "--activation", "identity", "--k", "2", "--seed", seed, "-o", out}
	}
	run(fit("1", "one.json")...)
	run(fit("2", "two.json")...)
	one, two := read(t, dir, "one.json"), read(t, dir, "two.json")
	for range 3 {
		a, _ := command(t, dir, fit("1", "out.json")...)
		b, _ := command(t, dir, fit("2", "out.json")...)
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		if err := b.Run(); err != nil {
			t.Fatal(err)
		}
		if err := a.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, "out.json"); got != one && got != two {
			t.Error("the file is neither's")
		}
	}
	if left := temporary(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// interrupted runs a fit, sends it SIGINT when it has something to keep, and returns
// what it says.
func interrupted(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd, stderr := command(t, dir, args...)
	cmd.Env = append(cmd.Env, standOffered+"=2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	standing(t, cmd)
	if code := woken(t, cmd, syscall.SIGINT); code != exitSignal+int(syscall.SIGINT) {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return stderr.String()
}

// An interrupted fit leaves a checkpoint and says where; resumed it ends in the
// bytes of an uninterrupted one and takes the checkpoint away.
func TestInterruptedFitResumes(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	run := func(args ...string) (int, string) {
		t.Helper()
		cmd, stderr := command(t, dir, args...)
		return exitOf(cmd.Run()), stderr.String()
	}
	run("sample", "--activation", "identity", "--k", "2", "--d", "6", "--n", "2000", "-o", "data.npy")
	fit := func(more ...string) []string {
		return append([]string{"fit", "data.npy", "--activation", "identity", "--k", "2:3", "--starts", "4", "--quiet"}, more...)
	}
	whole, _ := command(t, dir, fit("-o", "whole.json")...)
	if err := whole.Run(); err != nil {
		t.Fatal(err)
	}
	if code, line := run(fit("-o", "out.json", "--resume")...); code != exitIO || !strings.Contains(line, "out.json.checkpoint: no such file or directory; nothing to resume") {
		t.Errorf("without a checkpoint: exit code %d, %s", code, line)
	}

	line := interrupted(t, dir, fit("-o", "out.json")...)
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, "out.json.checkpoint, --resume goes on") {
		t.Fatalf("stderr %q", line)
	}
	checkpoint := read(t, dir, "out.json.checkpoint")
	if !json.Valid([]byte(checkpoint)) {
		t.Error("the checkpoint is not JSON")
	}
	if code, line := run(fit("-o", "out.json", "--resume", "--seed", "2")...); code != exitData || !strings.Contains(line, "out.json.checkpoint: the checkpoint is of another fit: seed was 1 and is 2") {
		t.Errorf("another seed: exit code %d, %s", code, line)
	}
	if err := os.WriteFile(filepath.Join(dir, "out.json.checkpoint"), []byte(checkpoint[:len(checkpoint)/2]), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, line := run(fit("-o", "out.json", "--resume")...); code != exitData || !strings.Contains(line, "not a checkpoint") {
		t.Errorf("half a checkpoint: exit code %d, %s", code, line)
	}
	if err := os.WriteFile(filepath.Join(dir, "out.json.checkpoint"), []byte(checkpoint), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, line := run(fit("-o", "out.json", "--resume", "--threads", "1")...); code != 0 {
		t.Fatalf("resumed: exit code %d, %s", code, line)
	}
	if read(t, dir, "out.json") != read(t, dir, "whole.json") {
		t.Error("the resumed fit is another file")
	}
	if _, err := os.Stat(filepath.Join(dir, "out.json.checkpoint")); err == nil {
		t.Error("the checkpoint is still there")
	}
}

// A hang-up leaves a checkpoint too. What somebody has put in its place meanwhile
// is not replaced, and not removed when the fit is over.
func TestHangUpAndForeignCheckpoint(t *testing.T) {
	dir := t.TempDir()
	sample, _ := command(t, dir, "sample", "--activation", "sigmoid", "--k", "6", "--d", "16", "--n", "60000", "-o", "data.npy")
	if err := sample.Run(); err != nil {
		t.Fatal(err)
	}
	fit := []string{"fit", "data.npy", "--activation", "sigmoid", "--k", "5:9", "--quiet", "-o", "out.json"}
	checkpoint := filepath.Join(dir, "out.json.checkpoint")
	hangUp := func(before func()) string {
		t.Helper()
		cmd, stderr := command(t, dir, fit...)
		cmd.Env = append(cmd.Env, standOffered+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		standing(t, cmd)
		before()
		if code := woken(t, cmd, syscall.SIGHUP); code != exitSignal+int(syscall.SIGHUP) {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return stderr.String()
	}
	line := hangUp(func() {})
	if !strings.Contains(line, "ended by hangup; outputs are as they were before; the best so far is in out.json.checkpoint") {
		t.Errorf("stderr %q", line)
	}
	if err := os.Remove(checkpoint); err != nil {
		t.Fatal(err)
	}
	const mine = "x,y\n1,2\n"
	line = hangUp(func() {
		if err := os.WriteFile(checkpoint, []byte(mine), 0o666); err != nil {
			t.Fatal(err)
		}
	})
	if !strings.Contains(line, "no checkpoint could be written: out.json.checkpoint: cannot be created: it is there already") {
		t.Errorf("stderr %q", line)
	}
	if got := read(t, dir, "out.json.checkpoint"); got != mine {
		t.Errorf("the file in its place is now %q", got)
	}
}

// An interrupted reproduction goes on where it was, to the same files.
func TestInterruptedReproduction(t *testing.T) {
	testslow.Mark(t)
	dir := t.TempDir()
	reproduce := func(out string) []string {
		return []string{"reproduce", "004-gamma", "002-L3", "--quick", "--threads", "1", "-o", out}
	}
	cmd, stderr := command(t, dir, reproduce("out")...)
	cmd.Env = append(cmd.Env, standAt+"=20") // where it has begun to write one of its runs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runs := func(out string) []string {
		files, err := filepath.Glob(filepath.Join(dir, out, ".runs", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	standing(t, cmd)
	if len(runs("out")) == 0 {
		t.Error("no run is finished by then")
	}
	if code := woken(t, cmd, syscall.SIGINT); code != exitSignal+int(syscall.SIGINT) || !strings.Contains(stderr.String(), "the same command goes on where this one stopped") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	kept := map[string]time.Time{}
	for _, file := range runs("out") {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		kept[file] = info.ModTime()
	}
	for _, out := range []string{"out", "whole"} {
		cmd, stderr := command(t, dir, reproduce(out)...)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v, %s", out, err, stderr)
		}
	}
	for file, then := range kept {
		if info, err := os.Stat(file); err != nil || info.ModTime() != then {
			t.Errorf("%s was made again: %v", file, err)
		}
	}
	for _, name := range []string{"index.html", "results.md", "004-gamma.csv", "004-gamma.png", "002-L3.svg"} {
		if read(t, dir, filepath.Join("out", name)) != read(t, dir, filepath.Join("whole", name)) {
			t.Errorf("%s differs after an interruption", name)
		}
	}
}
