package pluginproc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// watchInterval is how often the memory of a plugin's session is looked at.
	watchInterval = 50 * time.Millisecond
	// searchEvery is how many looks pass from one search for new processes to the
	// next, for which all that run have to be looked at.
	searchEvery = 5
	// maxTasks bounds the processes and threads of a session. A runtime has a few
	// for each processor.
	maxTasks = 1024
	// kernelShare is what each process but the first counts for beside its memory: about so much the
	// kernel can be made to keep for one that no page table has, buffers of its descriptors (13 MiB
	// for [sandbox.MaxFiles] of them) and records of its mappings (16 MiB for the 65,530 that it may have).
	kernelShare = 32 << 20
	// maxNames bounds the names in the directory of the plugin's socket. It needs two.
	maxNames = 64
)

// watch ends a plugin whose session uses more memory than it may, has too many
// processes and threads, or makes too many names. Pages that processes share count for each.
func (r *runner) watch() {
	r.mu.Lock()
	leader := r.pid
	r.mu.Unlock()
	members := []int{leader}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for look := 1; ; look++ {
		select {
		case <-r.done:
			return
		case <-ticker.C:
		}
		if look%searchEvery == 0 {
			members = append([]int{leader}, session(leader)...)
			if tooManyNames(r.socketDir) {
				r.end(excess{reason: fmt.Sprintf("it made more than %d files in its socket's directory and was ended",
					maxNames)})
				return
			}
		}
		memory, tasks := -int64(kernelShare), 0
		for _, pid := range members {
			if u, ok := usageOf(pid); ok && u.session == leader {
				memory += u.pages*int64(os.Getpagesize()) + besides(u.path) + kernelShare
				tasks += u.tasks
			}
		}
		switch {
		case memory > r.limits.RSS:
			r.end(*r.tooLarge())
			return
		case tasks > maxTasks:
			r.end(excess{reason: fmt.Sprintf("it had more than %d processes and threads and was ended", maxTasks)})
			return
		}
	}
}

// usage is what the kernel says of a process.
type usage struct {
	path    string // of its directory in /proc, or of that of a thread that lives
	session int
	tasks   int // threads
	pages   int64
}

// usageOf reads /proc/PID/stat, and where the first thread of a process has ended before
// the others, and with it all that the kernel says there, that of another one.
func usageOf(pid int) (u usage, ok bool) {
	path := "/proc/" + strconv.Itoa(pid)
	u, state := readStat(path)
	if state != "Z" {
		return u, state != ""
	}
	threads, _ := os.ReadDir(path + "/task")
	for _, e := range threads {
		if u, state = readStat(path + "/task/" + e.Name()); state != "" && state != "Z" && state != "X" {
			return u, true
		}
	}
	return u, false
}

// readStat reads the file stat of a process or thread, whose fields proc(5) numbers. The state
// is "" where there is none.
func readStat(path string) (u usage, state string) {
	data, err := os.ReadFile(path + "/stat")
	if err != nil {
		return u, ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // from field 3 on
	if len(fields) < 22 {
		return u, ""
	}
	u.path = path
	u.session, _ = strconv.Atoi(fields[6-3])
	u.tasks, _ = strconv.Atoi(fields[20-3])
	u.pages, _ = strconv.ParseInt(fields[24-3], 10, 64)
	return u, fields[0]
}

// besides returns the memory of a process in bytes that is not resident, or is not counted as
// such: its page tables, large pages, and what has been swapped out.
func besides(path string) (sum int64) {
	data, _ := os.ReadFile(path + "/status")
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmPTE", "VmSwap", "HugetlbPages":
			kB, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			sum += kB << 10
		}
	}
	return sum
}

// tooManyNames says whether there are more than maxNames in dir.
func tooManyNames(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxNames + 1)
	return len(names) > maxNames
}

// session returns the processes of a session that live, but for its leader.
func session(leader int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var members []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == leader {
			continue
		}
		if u, ok := usageOf(pid); ok && u.session == leader {
			members = append(members, pid)
		}
	}
	return members
}
