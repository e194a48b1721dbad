package pluginproc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestCgroupParents: where a control group may be made, by what the kernel says of
// mounts and of this process.
func TestCgroupParents(t *testing.T) {
	const proc = "25 1 0:22 / /proc rw - proc proc rw\n"
	unified := proc + "26 1 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for name, c := range map[string]struct {
		mountinfo, membership string
		want                  []string
	}{
		"a user's session": {unified, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope\n", []string{
			"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope",
			"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice",
		}},
		"the root":           {unified, "0::/\n", []string{"/sys/fs/cgroup"}},
		"beside version 1":   {strings.Replace(unified, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1), "4:memory:/x\n0::/a\n", []string{"/sys/fs/cgroup/unified/a", "/sys/fs/cgroup/unified"}},
		"version 1 alone":    {proc + "26 1 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/x\n", nil},
		"a part is mounted":  {strings.Replace(unified, " / /sys", " /a /sys", 1), "0::/a/b\n", []string{"/sys/fs/cgroup/b", "/sys/fs/cgroup"}},
		"another is mounted": {strings.Replace(unified, " / /sys", " /c /sys", 1), "0::/a/b\n", nil},
		"outside of it":      {unified, "0::/../a\n", nil},
		"nothing is told":    {"", "", nil},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"mountinfo": c.mountinfo, "cgroup": c.membership} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupParents(filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCgroupBounds: the limits are written to the files that the hierarchy has, and what
// the kernel says of a group that was too large is understood.
func TestCgroupBounds(t *testing.T) {
	g := &cgroup{path: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(g.path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"memory.max": strconv.Itoa(100 << 20), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": strconv.Itoa(2 * maxTasks)}
	delete(want, "memory.swap.max") // as on machines without swap
	for name := range want {
		write(name, "")
	}
	if err := g.bound(Limits{RSS: 100 << 20}); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got, _ := os.ReadFile(filepath.Join(g.path, name)); string(got) != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for text, out := range map[string]bool{"": false, "low 0\noom 1\noom_kill 0\noom_group_kill 0\n": false, "oom 1\noom_kill 2\n": true} {
		write("memory.events", text)
		if g.outOfMemory() != out {
			t.Errorf("%q: out of memory is %v, want %v", text, !out, out)
		}
	}
	if none := (*cgroup)(nil); none.outOfMemory() {
		t.Error("no group is out of memory")
	}
}

// TestCgroupSweep: what a host has left that is gone is removed, and nothing else.
func TestCgroupSweep(t *testing.T) {
	parent := t.TempDir()
	gone := 1<<22 + 1 // above the largest process id
	for _, name := range []string{fmt.Sprintf("moe-plugin-%d-0a", gone), fmt.Sprintf("moe-plugin-%d-0b", os.Getpid()), "moe-plugin-x", "other"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweepCgroups(parent)
	var left []string
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{fmt.Sprintf("moe-plugin-%d-0b", os.Getpid()), "moe-plugin-x", "other"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q; %v", left, want, err)
	}
}

// TestMakeCgroup: a group is a directory in its parent that says whose it is, open until it is removed; where none can be
// made there is an error.
func TestMakeCgroup(t *testing.T) {
	parent := t.TempDir()
	g, err := makeCgroup(parent, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	info, err := g.dir.Stat()
	name := filepath.Base(g.path)
	if err != nil || !info.IsDir() || filepath.Dir(g.path) != parent || !strings.HasPrefix(name, fmt.Sprintf("moe-plugin-%d-", os.Getpid())) {
		t.Errorf("the group %s: %v", g.path, err)
	}
	g.remove()
	if _, err := os.Stat(g.path); !os.IsNotExist(err) {
		t.Errorf("a group that was removed: %v", err)
	}
	if g, err := makeCgroup(filepath.Join(parent, "none"), testLimits); err == nil || g != nil {
		t.Errorf("in no directory: %v, %v", g, err)
	}
}

// TestCgroup: where a control group can be made, a plugin and the child that it has in
// a session of its own are in it, with the limits that the hierarchy has, and both end
// with it although there is neither a PID namespace nor a sandbox; the group goes too.
func TestCgroup(t *testing.T) {
	testslow.Mark(t)
	limits := testLimits
	limits.Sandbox, limits.lacks = sandbox.Off, sandbox.Lacks{Namespaces: true}
	probe := newCgroup(limits)
	if probe == nil {
		for _, parent := range cgroupParents("/proc/self/mountinfo", "/proc/self/cgroup") {
			if g, err := makeCgroup(parent, limits); err == nil {
				g.remove()
				t.Fatalf("a control group can be made in %s, and none was", parent)
			}
		}
		t.Skip("no control group of version 2 can be made here")
	}
	_, err := os.Stat(filepath.Join(probe.path, "cgroup.kill"))
	probe.remove()
	if err != nil {
		t.Skip("control groups cannot be killed before Linux 5.14")
	}
	p, path := open(t, limits, "children", nil)
	g := p.proc.runner.group
	if g == nil {
		t.Fatal("the plugin is in no control group")
	}
	members := func() int {
		data, _ := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
		return strings.Count(string(data), "\n")
	}
	if !plugintest.Await(func() bool { return members() == 3 }) { // its children start beside its server
		t.Errorf("%d processes in the group, want the plugin and two children", members())
	}
	for name, want := range map[string]string{"memory.max": strconv.FormatInt(limits.RSS, 10), "pids.max": strconv.Itoa(2 * maxTasks)} {
		if data, err := os.ReadFile(filepath.Join(g.path, name)); err == nil && strings.TrimSpace(string(data)) != want {
			t.Errorf("%s is %q, want %s", name, data, want)
		} else if err != nil {
			t.Logf("the hierarchy has no %s", name)
		}
	}
	if _, err := g.dir.Stat(); err != nil {
		t.Errorf("the group was given up while the plugin is in it: %v", err)
	}
	p.Close()
	plugintest.CheckNothingLeft(t, path)
	if _, err := os.Stat(g.path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", g.path, err)
	}
}
