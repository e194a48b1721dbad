package pluginproc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	maxLine   = 4096 // bytes of a line that are kept; a handshake with a certificate has about 900
	keptLines = 64   // lines that are kept
	saidLines = 3    // lines that an error quotes
	saidChars = 160  // characters of each
)

// words keeps the last lines that a plugin wrote. It is safe for concurrent
// use, never fails and never grows: long lines are cut, old ones forgotten.
type words struct {
	mu    sync.Mutex
	lines []string
	part  []byte // of the line that is being written
	cut   bool   // part is full
}

// Write takes any bytes.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range p {
		switch {
		case c == '\n':
			w.flush()
		case len(w.part) < maxLine:
			w.part = append(w.part, c)
		default:
			w.cut = true
		}
	}
	return len(p), nil
}

func (w *words) flush() {
	if len(w.part) == 0 {
		return
	}
	line := string(w.part)
	if w.cut {
		line += "…"
	}
	w.part, w.cut = w.part[:0], false
	if len(w.lines) == keptLines {
		w.lines = append(w.lines[:0], w.lines[1:]...)
	}
	w.lines = append(w.lines, line)
}

// last returns the last lines as one printable line. Where there is a Go panic
// among them it begins there, for a stack trace says less than its first line.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	lines := w.lines[max(0, len(w.lines)-saidLines):]
	for i, line := range w.lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			lines = w.lines[i : i+1]
			break
		}
	}
	said := make([]string, len(lines))
	for i, line := range lines {
		said[i] = quote(line)
	}
	return strings.Join(said, " ")
}

// quote makes s printable on a terminal, in at most saidChars characters.
func quote(s string) string {
	if r := []rune(s); len(r) > saidChars {
		s = string(r[:saidChars]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// printable returns s without what moves a terminal's cursor, in at most
// saidChars characters.
func printable(s string) string {
	q := quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// firstLine reads r to its end, whatever comes, so that its writer never
// blocks. The first line is sent to line, without its end or cut at maxLine
// bytes; if r ends before it has a byte, line is closed without one. All that
// follows goes to rest.
func firstLine(r io.Reader, line chan<- string, rest io.Writer) {
	var first []byte
	open := true
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		p := buf[:n]
		if open {
			head, tail, ended := bytes.Cut(p, []byte("\n"))
			first = append(first, head[:min(len(head), maxLine-len(first))]...)
			p = tail
			if ended || err != nil || len(first) == maxLine {
				if ended || len(first) > 0 {
					line <- string(first)
				}
				close(line)
				open = false
			}
		}
		rest.Write(p)
		if err != nil {
			return
		}
	}
}
