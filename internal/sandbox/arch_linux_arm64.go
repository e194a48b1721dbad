package sandbox

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32       = 0   // there is none
	machine   = 183 // EM_AARCH64
)

// There are no calls that this processor has no more, but for one.
var (
	legacy        []uint32
	legacyChecked []check
	legacyRefused = []uint32{unix.SYS_RENAMEAT}
)

var encoder = arm64Code

// arm64Code returns the machine code of steps on arm64.
func arm64Code(steps []step, status int) []byte {
	var c []byte
	put := func(words ...uint32) {
		for _, w := range words {
			c = binary.LittleEndian.AppendUint32(c, w)
		}
	}
	move := func(register uint32, v uint64) { // movz, and three movk
		put(0xd2800000 | uint32(v&0xffff)<<5 | register)
		for hw := uint32(1); hw < 4; hw++ {
			put(0xf2800000 | hw<<21 | uint32(v>>(16*hw)&0xffff)<<5 | register)
		}
	}
	const svc = 0xd4000001
	put(0xf94003f3) // ldr x19, [sp]             argc
	put(0x910023f4) // add x20, sp, #8           argv
	put(0x8b130e95) // add x21, x20, x19, lsl 3
	put(0x910022b5) // add x21, x21, #8          envp
	for _, s := range steps {
		for i, a := range s.args {
			switch a.kind {
			case inStack:
				put(0xd10103e1) // sub x1, sp, #64
			case argv:
				put(0xaa1403e1) // mov x1, x20
			case envp:
				put(0xaa1503e2) // mov x2, x21
			default:
				move(uint32(i), a.value)
			}
		}
		move(8, s.number)
		put(svc)
		if s.tolerant {
			continue
		}
		at := len(c)
		put(0)          // tbz x0, #63, over what follows
		put(0xd10043ff) // sub sp, sp, #16
		move(9, s.number)
		put(0xa90003e9) // stp x9, x0, [sp]
		move(0, uint64(status))
		put(0x910003e1) // mov x1, sp
		move(2, 16)
		move(8, 64) // write
		put(svc)
		move(0, failed)
		move(8, 94) // exit_group
		put(svc)
		binary.LittleEndian.PutUint32(c[at:], 0xb6f80000|uint32(len(c)-at)/4<<5)
	}
	return c
}
