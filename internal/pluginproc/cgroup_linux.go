package pluginproc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a control group (version 2) of a plugin's processes, which those that they
// start are in as well, whatever session or group they make: it is killed as one, and
// where its hierarchy has the controllers, bounds their memory, files in memory
// and the kernel's share included, and their number. The watch goes on beside it.
type cgroup struct {
	path string
	dir  *os.File
}

const cgroupPrefix = "moe-plugin-"

// newCgroup makes a control group below that of this process, or beside it: the one
// that a user's session manager has put it in is most often not to be parted. nil
// where there are none, or none to be made, which is usual.
func newCgroup(limits Limits) *cgroup {
	for _, parent := range cgroupParents("/proc/self/mountinfo", "/proc/self/cgroup") {
		if g, err := makeCgroup(parent, limits); err == nil {
			return g
		}
	}
	return nil
}

// cgroupParents returns the directories of the control group of this process and of the
// one above, within the hierarchy that is mounted, as the two files of proc(5) tell.
func cgroupParents(mountinfo, membership string) []string {
	mount, root := cgroupMount(mountinfo)
	data, err := os.ReadFile(membership)
	if err != nil || mount == "" {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		below, err := filepath.Rel(root, name)
		if err != nil || strings.HasPrefix(name, "/..") || below == ".." || strings.HasPrefix(below, "../") {
			return nil // it is outside of what is mounted
		}
		own := filepath.Join(mount, below)
		if own == mount {
			return []string{own}
		}
		return []string{own, filepath.Dir(own)}
	}
	return nil
}

// cgroupMount returns where the hierarchy of version 2 is mounted, and which part of it.
func cgroupMount(mountinfo string) (mount, root string) {
	data, err := os.ReadFile(mountinfo)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(data)) {
		about, of, ok := strings.Cut(line, " - ")
		fields := strings.Fields(about)
		if ok && strings.HasPrefix(of, "cgroup2 ") && len(fields) > 4 {
			return fields[4], fields[3]
		}
	}
	return "", ""
}

// makeCgroup makes a group in parent, and takes away those that hosts have left there
// which are gone.
func makeCgroup(parent string, limits Limits) (*cgroup, error) {
	sweepCgroups(parent)
	path := filepath.Join(parent, fmt.Sprintf("%s%d-%08x", cgroupPrefix, os.Getpid(), rand.Uint32()))
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	g := &cgroup{path: path}
	err := g.bound(limits)
	if err == nil {
		g.dir, err = os.Open(path)
	}
	if err != nil {
		os.Remove(path)
		return nil, err
	}
	return g, nil
}

// bound sets the limits. That on tasks is above the watch's, which says what it does.
func (g *cgroup) bound(limits Limits) error {
	return errors.Join(
		g.limit("memory.max", limits.RSS),
		g.limit("memory.swap.max", 0),
		g.limit("memory.oom.group", 1),
		g.limit("pids.max", 2*maxTasks),
	)
}

// limit sets a limit that the hierarchy has.
func (g *cgroup) limit(name string, value int64) error {
	err := g.write(name, strconv.FormatInt(value, 10))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (g *cgroup) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(g.path, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// kill ends all processes of the group (Linux 5.14).
func (g *cgroup) kill() {
	if g != nil {
		_ = g.write("cgroup.kill", "1")
	}
}

// outOfMemory says whether the kernel has ended the group for want of memory.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	data, err := os.ReadFile(filepath.Join(g.path, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

// remove takes the group away once its processes have ended, for which it waits a
// little. What stays is swept when the next is made.
func (g *cgroup) remove() {
	if g == nil {
		return
	}
	g.dir.Close()
	for range 100 {
		if err := os.Remove(g.path); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sweepCgroups removes the groups in parent that nobody is in and whose hosts are gone.
func sweepCgroups(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, path := range left {
		host, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), cgroupPrefix), "-")
		if pid, err := strconv.Atoi(host); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			os.Remove(path)
		}
	}
}
