package sandbox

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The fields of a seccomp filter's data; arguments are eight bytes each, of which
// these are the lower four.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg    = 16
)

func deny(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// bpf is a program that is being written.
type bpf []unix.SockFilter

func (f *bpf) emit(code uint16, k uint32) { *f = append(*f, unix.SockFilter{Code: code, K: k}) }

func (f *bpf) load(offset uint32) { f.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
func (f *bpf) arg(i uint32)       { f.load(dataArg + 8*i) }
func (f *bpf) and(mask uint32)    { f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask) }
func (f *bpf) ret(action uint32)  { f.emit(unix.BPF_RET|unix.BPF_K, action) }

// A condition is a jump: its code and what it compares with.
type condition struct {
	code uint16
	k    uint32
}

func (f *bpf) equal(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, k}
}
func (f *bpf) atLeast(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, k}
}
func (f *bpf) anyBit(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, k}
}

func (f *bpf) when(c condition, action uint32) {
	*f = append(*f, unix.SockFilter{Code: c.code, Jt: 0, Jf: 1, K: c.k})
	f.ret(action)
}

func (f *bpf) unless(c condition, action uint32) {
	*f = append(*f, unix.SockFilter{Code: c.code, Jt: 1, Jf: 0, K: c.k})
	f.ret(action)
}

// among refuses a value that is none of those.
func (f *bpf) among(errno unix.Errno, values ...uint32) {
	for i, v := range values { // over the other values and the refusal
		*f = append(*f, unix.SockFilter{Code: f.equal(v).code, Jt: uint8(len(values) - i), Jf: 0, K: v})
	}
	f.ret(deny(errno))
}

// call writes what is for one system call, which passes where body does not refuse
// it.
func (f *bpf) call(nr uint32, body func(*bpf)) {
	var b bpf
	body(&b)
	b.ret(unix.SECCOMP_RET_ALLOW)
	*f = append(*f, unix.SockFilter{Code: f.equal(nr).code, Jt: 0, Jf: uint8(len(b)), K: nr})
	*f = append(*f, b...)
}

// bytes returns a filter as the kernel reads it.
func (f bpf) bytes() []byte {
	var out []byte
	for _, i := range f {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}
