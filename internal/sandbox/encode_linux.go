package sandbox

import "encoding/binary"

// failed is the status that a stage exits with after its report.
const failed = 126

// amd64Code returns the machine code of steps on x86-64.
func amd64Code(steps []step, status int) []byte {
	var c []byte
	put := func(b ...byte) { c = append(c, b...) }
	wide := func(v uint64) { c = binary.LittleEndian.AppendUint64(c, v) }
	short := func(op byte, v uint32) { c = binary.LittleEndian.AppendUint32(append(c, op), v) }
	put(0x4c, 0x8b, 0x24, 0x24)                                                             // mov r12, [rsp]          argc
	put(0x4c, 0x8d, 0x6c, 0x24, 8)                                                          // lea r13, [rsp+8]        argv
	put(0x4f, 0x8d, 0x74, 0xe5, 0x08)                                                       // lea r14, [r13+r12*8+8]  envp
	move := [][2]byte{{0x48, 0xbf}, {0x48, 0xbe}, {0x48, 0xba}, {0x49, 0xba}, {0x49, 0xb8}} // mov rdi, rsi, rdx, r10, r8
	for _, s := range steps {
		for i, a := range s.args {
			switch a.kind {
			case inStack:
				put(0x48, 0x8d, 0x74, 0x24, 0xc0) // lea rsi, [rsp-64]
			case argv:
				put(0x4c, 0x89, 0xee) // mov rsi, r13
			case envp:
				put(0x4c, 0x89, 0xf2) // mov rdx, r14
			default:
				put(move[i][:]...)
				wide(a.value)
			}
		}
		put(0x48, 0xb8) // mov rax
		wide(s.number)
		put(0x0f, 0x05) // syscall
		if s.tolerant {
			continue
		}
		put(0x48, 0x85, 0xc0, 0x79, 0) // test rax, rax; jns, over what follows
		at := len(c)
		put(0x50)                     // push rax
		short(0x68, uint32(s.number)) // push the number
		short(0xbf, uint32(status))   // mov edi
		put(0x48, 0x89, 0xe6)         // mov rsi, rsp
		short(0xba, 16)               // mov edx
		short(0xb8, 1)                // mov eax, write
		put(0x0f, 0x05)
		short(0xbf, failed)
		short(0xb8, 231) // exit_group
		put(0x0f, 0x05)
		c[at-1] = byte(len(c) - at)
	}
	return c
}

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
