package plugintest

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// HoardShared holds at most so many MiB in shared mappings without a page that is mapped, and returns how many.
func HoardShared(most int) (held int) {
	const step = 10
	for held < most {
		data, err := unix.Mmap(-1, 0, step<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			break
		}
		for i := 0; i < len(data); i += 4096 {
			data[i] = 1
		}
		unix.Madvise(data, unix.MADV_DONTNEED)
		held += step
	}
	return held
}

// fill writes to fd what there is room for, and returns how many bytes those were.
func fill(fd int) (n int) {
	for size := 1 << 16; size > 0; {
		m, err := unix.Write(fd, make([]byte, size))
		if err != nil {
			size /= 16
			continue
		}
		n += m
	}
	return n
}

// HoardSockets holds memory in the buffers of sockets, of all threads that may have some.
func HoardSockets(most int) (held int) {
	bytes := 0
	for bytes < most<<20 {
		got := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // which ends with this function, and its descriptors with it if they are its own
			for got+bytes < most<<20 {
				fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					return
				}
				unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<24)
				unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<24)
				got += fill(fds[0]) + fill(fds[1])
			}
		}()
		<-done
		bytes += got
		if got == 0 {
			break
		}
	}
	return bytes >> 20
}

// HoardFlights holds memory in the buffers of sockets that are on their way in the messages of others.
func HoardFlights(most int) (held int) {
	carrier, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	bytes := 0
	for bytes < most<<20 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			break
		}
		n := fill(fds[0]) + fill(fds[1])
		err = unix.Sendmsg(carrier[0], []byte("x"), unix.UnixRights(fds[:]...), nil, 0)
		unix.Close(fds[0])
		unix.Close(fds[1])
		if err != nil {
			break
		}
		bytes += n
	}
	return bytes >> 20
}

// HoardPipes holds memory in pipes.
func HoardPipes(most int) (held int) {
	bytes := 0
	for bytes < most<<20 {
		var fds [2]int
		if unix.Pipe2(fds[:], unix.O_NONBLOCK) != nil {
			break
		}
		unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, 1<<20)
		bytes += fill(fds[1])
	}
	return bytes >> 20
}
