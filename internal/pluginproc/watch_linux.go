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
)

// watch ends a plugin whose session uses more memory than it may, or has too many
// processes and threads. Pages that processes share count for each.
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
		}
		var sum usage
		for _, pid := range members {
			if u, ok := usageOf(pid); ok && u.session == leader {
				sum.pages += u.pages
				sum.tasks += u.tasks
			}
		}
		switch {
		case sum.pages*int64(os.Getpagesize()) > r.limits.RSS:
			r.end(*r.tooLarge())
			return
		case sum.tasks > maxTasks:
			r.end(excess{fmt.Sprintf("it had more than %d processes and threads and was ended", maxTasks), ""})
			return
		}
	}
}

// tooLarge is the reason for which a plugin is ended that uses too much memory.
func (r *runner) tooLarge() *excess {
	return &excess{fmt.Sprintf("it used more than %d MiB of memory and was ended", r.limits.RSS>>20), "it leaks, or needs more (--plugin-max-rss)"}
}

// usage is what the kernel says of a process.
type usage struct {
	session int
	tasks   int // threads
	pages   int64
}

// usageOf reads /proc/PID/stat, whose fields proc(5) numbers.
func usageOf(pid int) (u usage, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return u, false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // from field 3 on
	if len(fields) < 22 || fields[0] == "Z" {
		return u, false
	}
	u.session, _ = strconv.Atoi(fields[6-3])
	u.tasks, _ = strconv.Atoi(fields[20-3])
	u.pages, _ = strconv.ParseInt(fields[24-3], 10, 64)
	return u, true
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
