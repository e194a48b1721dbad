package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/setting"
)

const (
	readSize  = 256 << 10 // bytes asked for in one read
	maxRecord = 16 << 20  // bytes of one row; a file without line ends stops here
)

// records cuts a CSV stream into records (RFC 4180): lines that end in LF or
// CRLF, where line ends within quotes belong to the field.
type records struct {
	name   string
	r      io.Reader
	buf    []byte
	lo, hi int // what is read and not yet cut
	eof    bool
	line   int // of the next record, from 1

	comma  byte    // between fields
	fields []field // room for those of a record
}

func newRecords(name string, r io.Reader, size int) *records {
	return &records{name: name, r: r, buf: make([]byte, size), line: 1, comma: ','}
}

// next returns the next record without its line end, the line it starts in,
// and whether it holds quotes. It is valid until the following call. At the
// end of the stream the error is io.EOF.
func (c *records) next() (rec []byte, line int, quoted bool, err error) {
	for {
		window := c.buf[c.lo:c.hi]
		end := bytes.IndexByte(window, '\n')
		if end < 0 && c.eof {
			end = len(window)
		}
		lines := 1
		if end >= 0 {
			if quoted = bytes.IndexByte(window[:end], '"') >= 0; quoted {
				end, lines = quotedEnd(window, c.eof)
			}
		}
		if end >= 0 {
			if len(window) == 0 {
				return nil, c.line, false, io.EOF
			}
			line = c.line
			c.line += lines
			c.lo += min(end+1, len(window))
			return bytes.TrimSuffix(window[:end], []byte{'\r'}), line, quoted, nil
		}
		if c.eof {
			return nil, c.line, false, &Error{File: c.name, Line: c.line, Msg: "a quote is opened and not closed"}
		}
		if err := c.fill(); err != nil {
			return nil, c.line, false, err
		}
	}
}

// quotedEnd returns the place of the line end that closes the first record of
// b and the number of lines in it, or −1 where b ends within the record. A line
// end is the record's where the quotes before it are even in number.
func quotedEnd(b []byte, eof bool) (end, lines int) {
	inside := false
	lines = 1
	for i, c := range b {
		switch {
		case c == '"':
			inside = !inside
		case c == '\n' && !inside:
			return i, lines
		case c == '\n':
			lines++
		}
	}
	if eof && !inside {
		return len(b), lines
	}
	return -1, 0
}

// fill makes room in the buffer and reads until it is full or the stream ends.
func (c *records) fill() error {
	if c.lo > 0 {
		copy(c.buf, c.buf[c.lo:c.hi])
		c.hi -= c.lo
		c.lo = 0
	}
	if c.hi == len(c.buf) {
		if len(c.buf) >= maxRecord && c.line == 1 && outsideQuotes(c.buf, '\r') > 0 {
			return &Error{File: c.name, Line: c.line, Msg: aloneCR}
		}
		if len(c.buf) >= maxRecord {
			return &Error{File: c.name, Line: c.line,
				Msg: fmt.Sprintf("a row of more than %d MiB: no line end, or a quote that is not closed",
					maxRecord>>20)}
		}
		c.buf = append(c.buf, make([]byte, min(len(c.buf), maxRecord-len(c.buf)))...)
	}
	n, err := io.ReadFull(c.r, c.buf[c.hi:])
	c.hi += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		c.eof = true
		return nil
	}
	return err
}

// field is one field of a record, without quotes and the blanks around it.
type field struct {
	text []byte
	line int
}

// split cuts a record into fields, valid until the following call. Doubled quotes in a quoted field stand for
// one; anything but blanks between a closing quote and the comma is an error.
func (c *records) split(rec []byte, line int) ([]field, error) {
	fields := c.fields[:0]
	for {
		rest := bytes.TrimLeft(rec, c.blanks())
		start := line
		var text []byte
		var n int
		if len(rest) > 0 && rest[0] == '"' {
			text, n = c.unquote(rest)
			if n < 0 {
				return nil, &Error{File: c.name, Line: line, Col: len(fields) +
					1, Msg: "text after a closing quote; a quote inside quotes is written twice"}
			}
			line += bytes.Count(rest[:n], []byte{'\n'})
		} else {
			if n = bytes.IndexByte(rest, c.comma); n < 0 {
				n = len(rest)
			}
			text = trimBlanks(rest[:n])
		}
		fields = append(fields, field{text, start})
		if n == len(rest) {
			c.fields = fields
			return fields, nil
		}
		rec = rest[n+1:]
	}
}

// unquote reads the quoted field at the start of b and returns its text and
// the place of the comma or end behind it, −1 if something else stands there.
func (c *records) unquote(b []byte) (text []byte, n int) {
	for i := 1; i < len(b); i++ {
		switch {
		case b[i] != '"':
			text = append(text, b[i])
		case i+1 < len(b) && b[i+1] == '"':
			text = append(text, '"')
			i++
		default:
			n = i + 1 + len(b[i+1:]) - len(bytes.TrimLeft(b[i+1:], c.blanks()))
			if n == len(b) || b[n] == c.comma {
				return trimBlanks(text), n
			}
			return nil, -1
		}
	}
	return nil, -1
}

// blanks are what may stand around a field: a tab not where it parts them.
func (c *records) blanks() string {
	if c.comma == '\t' {
		return " "
	}
	return " \t"
}

func trimBlanks(b []byte) []byte { return bytes.Trim(b, " \t") }

// csvSource is a CSV table: a header line of names, then rows of numbers.
type csvSource struct {
	layout *layout
	tally
	// open starts a pass: records past the header line.
	open func() (*records, io.Closer, error)
}

// newCSV opens a CSV table. r stands at its start; where the file can be read
// again reopen does that, elsewhere it is nil and one pass is all there is.
func newCSV(name string, r io.Reader, reopen func() (tableFile, error), sel Selection) (Source, error) {
	c := newRecords(name, r, readSize)
	head, err := readHeader(c, sel.point())
	if err != nil {
		return nil, err
	}
	lay, err := sel.ofCSV(name, head)
	if err != nil {
		return nil, err
	}
	s := &csvSource{layout: lay}
	if reopen == nil {
		s.open = func() (*records, io.Closer, error) {
			if c == nil {
				return nil, nil, errOnePass(name)
			}
			first := c
			c = nil
			return first, io.NopCloser(nil), nil
		}
		return s, nil
	}
	s.open = func() (*records, io.Closer, error) { return lay.reopen(reopen) }
	return s, nil
}

// reopen opens the file and reads past its header line, which must be the one
// that l was made for.
func (l *layout) reopen(open func() (tableFile, error)) (*records, io.Closer, error) {
	f, err := open()
	if err != nil {
		return nil, nil, err
	}
	c := newRecords(l.schema.Name, f, readSize)
	head, err := readHeader(c, l.point)
	if err == nil && !slices.Equal(head.names, l.names) {
		err = &Error{File: l.schema.Name, Line: 1, Msg: "the column names have changed since the file was opened"}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return c, f, nil
}

// header is the first line of a CSV file.
type header struct {
	names []string
	index bool // the first column has no name: it numbers the rows
	comma byte // between fields
}

// indexName is what the column without a name that pandas and R write is called.
const indexName = "row"

// readHeader reads the names of the columns from the first line, and sees what
// parts the fields.
func readHeader(c *records, point byte) (header, error) {
	rec, line, _, err := c.next()
	if err == io.EOF {
		return header{}, &Error{File: c.name, Msg: "empty file, want a line of column names and rows of numbers"}
	}
	if err != nil {
		return header{}, err
	}
	rec = bytes.Clone(bytes.TrimPrefix(rec, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(rec, []byte("\xff\xfe")) || bytes.HasPrefix(rec, []byte("\xfe\xff")) {
		return header{}, &Error{File: c.name, Line: line, Msg: "the text is UTF-16; save it as UTF-8"}
	}
	if everyOther(rec) {
		return header{}, &Error{File: c.name, Line: line,
			Msg: "the text looks like UTF-16, every other byte being 0; save it as UTF-8"}
	}
	if bytes.HasPrefix(rec, []byte("sep=")) && len(rec) == len("sep=")+1 {
		return header{}, &Error{File: c.name, Line: line,
			Msg: "a line for Excel stands before the names of the columns; leave it out: what parts the fields is seen"}
	}
	row := c.peek()
	if len(row) == 0 && c.eof && c.lo == c.hi && outsideQuotes(rec, '\r') > 0 {
		return header{}, &Error{File: c.name, Line: line, Msg: aloneCR}
	}
	c.comma = separator(rec, row, point)
	fields, err := c.split(rec, line)
	if err != nil {
		return header{}, err
	}
	h := header{names: make([]string, len(fields)), comma: c.comma}
	numbers := 0
	for i, f := range fields {
		h.names[i] = string(f.text)
		if _, n := numberWith(f.text, point); n > 0 && n == len(f.text) {
			numbers++
		}
	}
	if numbers == len(h.names) {
		return header{}, &Error{File: c.name, Line: line,
			Msg: "the first line holds numbers, want the names of the columns"}
	}
	if h.names[0] == "" && len(h.names) > 1 && !slices.Contains(h.names, indexName) {
		h.names[0], h.index = indexName, true
	}
	return h, nil
}

// aloneCR is what is wrong with a file that has no line end but CR.
const aloneCR = "the lines end in CR alone, as on old Macs; save it with line ends LF or CRLF"

// everyOther says whether more than half of the bytes in odd places of a text are 0, or of those in even ones, as in
// UTF-16 of letters without accents.
func everyOther(text []byte) bool {
	var zeros [2]int
	for i, b := range text {
		if b == 0 {
			zeros[i%2]++
		}
	}
	return len(text) > 1 && 4*max(zeros[0], zeros[1]) > len(text)
}

// peek returns the record that follows, nil where none can be read; the next call
// of next returns it again.
func (c *records) peek() []byte {
	for {
		window := c.buf[c.lo:c.hi]
		if end, _ := quotedEnd(window, c.eof); end >= 0 {
			return window[:end]
		}
		if c.eof || c.fill() != nil {
			return nil
		}
	}
}

// separator is what parts the fields of a file with this header and first row: of
// comma, semicolon and tab the first that stands in both, and as often; else that
// which the header has most. Where decimals have commas they part no fields, unless
// nothing else does.
func separator(head, row []byte, point byte) byte {
	candidates := []byte{',', ';', '\t'}
	if point == ',' {
		candidates = []byte{';', '\t', ','}
	}
	most, at := 0, candidates[0]
	for _, c := range candidates {
		n := outsideQuotes(head, c)
		if n > 0 && n == outsideQuotes(row, c) {
			return c
		}
		if n > most {
			most, at = n, c
		}
	}
	return at
}

// outsideQuotes counts c in a record where it does not stand within quotes.
func outsideQuotes(rec []byte, c byte) (n int) {
	inside := false
	for _, b := range rec {
		switch {
		case b == '"':
			inside = !inside
		case b == c && !inside:
			n++
		}
	}
	return n
}

// ofCSV is [Selection.apply] for the columns of a CSV file.
func (s Selection) ofCSV(file string, head header) (*layout, error) {
	note := ""
	if head.index && len(s.Features) == 0 && s.Target != indexName && !slices.Contains(s.Drop, indexName) &&
		!slices.Contains(s.Roles[:], indexName) {
		s.Drop = append(slices.Clone(s.Drop), indexName)
		note = "the first column has no name: it is taken for row numbers, called row, and left out"
	}
	lay, err := s.apply(file, 1, head.names)
	if err != nil {
		return nil, err
	}
	lay.comma = head.comma
	for role, rule := range rules {
		if rule.ids && s.Roles[role] != "" {
			lay.hold(model.Role(role), &IDs{places: make(map[string]float64)})
		}
	}
	if note != "" {
		lay.schema.Notes = append(lay.schema.Notes, note)
	}
	return lay, nil
}

func (s *csvSource) Schema() Schema { return s.layout.schema }

func (s *csvSource) Read(ctx context.Context, fn func(*model.Block) error) error {
	c, closer, err := s.open()
	if err != nil {
		return err
	}
	defer closer.Close()
	out := s.layout.blocks(fn)
	if err := s.layout.read(ctx, c, out); err != nil {
		return err
	}
	s.dropped = out.dropped
	return nil
}

// read parses the rows that c still holds. Empty lines at the end of the file
// are no rows; between rows they are a fault.
func (l *layout) read(ctx context.Context, c *records, out *blocks) error {
	empty := 0 // line of the first empty line since the last row
	for {
		rec, line, quoted, err := c.next()
		switch {
		case err == io.EOF && out.total == 0:
			return &Error{File: c.name, Line: 1, Msg: "no rows after the line of column names"}
		case err == io.EOF:
			return out.flush(ctx)
		case err != nil:
			return err
		case len(rec) == 0 && empty == 0:
			empty = line
			continue
		case len(rec) == 0:
			continue
		case empty > 0:
			return &Error{File: c.name, Line: empty, Msg: fmt.Sprintf("an empty line between rows, want %d fields",
				len(l.place))}
		case quoted:
			err = l.quotedRow(out, c, rec, line)
		default:
			err = l.row(out, rec, line)
		}
		if err != nil {
			return err
		}
		if err := out.next(ctx); err != nil {
			return err
		}
	}
}

// row parses a record without quotes.
func (l *layout) row(out *blocks, rec []byte, line int) error {
	rest := rec
	for f := range l.place {
		n := l.fieldAt(out, rest, line, f)
		atEnd := n == len(rest)
		if atEnd != (f == len(l.place)-1) {
			return l.ragged(bytes.Count(rec, []byte{l.comma})+1, line)
		}
		if !atEnd {
			rest = rest[n+1:]
		}
	}
	return nil
}

// fieldAt parses the field at the start of b and returns its length.
func (l *layout) fieldAt(out *blocks, b []byte, line, f int) int {
	if column := l.place[f]; column >= 0 && l.words[column] == nil {
		v, n := numberWith(b, l.point)
		if n > 0 && (n == len(b) || b[n] == l.comma) && out.accepts(column, v) {
			out.set(column, v)
			return n
		}
	}
	n := bytes.IndexByte(b, l.comma)
	if n < 0 {
		n = len(b)
	}
	l.cell(out, trimBlanks(b[:n]), line, f)
	return n
}

// quotedRow parses a record with quotes.
func (l *layout) quotedRow(out *blocks, c *records, rec []byte, line int) error {
	fields, err := c.split(rec, line)
	if err != nil {
		return err
	}
	if len(fields) != len(l.place) {
		return l.ragged(len(fields), line)
	}
	for f, field := range fields {
		l.cell(out, field.text, field.line, f)
	}
	return nil
}

// cell parses one field that has been cut out.
func (l *layout) cell(out *blocks, text []byte, line, f int) {
	column := l.place[f]
	if column < 0 {
		return
	}
	bad := cell{line: line, col: f + 1, column: l.names[f], text: quoteCell(text), kind: Word}
	if words := l.words[column]; words != nil {
		if words.ids != nil {
			l.id(out, words.ids, text, bad)
			return
		}
		level, ok := words.levels[string(text)]
		switch {
		case ok:
			out.set(column, level)
		case KindOf(text, l.point) == Missing:
			out.none(line, f, column, bad.text)
		case words.unseen >= 0:
			out.set(column, float64(words.unseen))
		default:
			bad.why = "none of the levels that the model was fitted with, " + words.names
			bad.remedy = Unseen
			out.unseen = append(out.unseen, bad)
		}
		return
	}
	bad.kind = KindOf(text, l.point)
	if bad.kind == Missing {
		out.none(line, f, column, bad.text)
		return
	}
	v, _ := numberWith(text, l.point)
	switch {
	case bad.kind == Number && out.accepts(column, v):
		out.set(column, v)
		return
	case bad.kind == Number:
		bad.why = out.why(column)
	case bad.kind == Spelled && bytes.IndexByte(text, ',') >= 0:
		bad.comma = true
	}
	out.bad.add(out.total+1, bad)
}

// hold has the column of a role read as ids.
func (l *layout) hold(role model.Role, ids *IDs) {
	l.schema.ids[role] = ids
	l.words[slices.Index(l.schema.Columns(), l.schema.Roles[role])] = &dictionary{ids: ids}
}

// id reads a cell of ids; bad is what is said of it where it is none.
func (l *layout) id(out *blocks, ids *IDs, text []byte, bad cell) {
	column := l.place[bad.col-1]
	switch {
	case KindOf(text, l.point) == Missing:
		out.none(bad.line, bad.col-1, column, bad.text)
	case len(text) > maxWord:
		bad.text = quoteCell(text[:maxWord])
		bad.why = fmt.Sprintf("the beginning of an id of more than %d bytes", maxWord)
		out.bad.add(out.total+1, bad)
	case notText(text) != "":
		bad.why = "an id that " + notText(text)
		out.bad.add(out.total+1, bad)
	default:
		out.set(column, ids.place(string(l.number(text))))
	}
}

// number is a number as the shortest text that is read as it, so that 7 and 7.0 are one; other text as it is.
func (l *layout) number(text []byte) []byte {
	if v, n := numberWith(text, l.point); n == len(text) && n > 0 {
		return []byte(nameOf(v))
	}
	return text
}

func (l *layout) ragged(fields, line int) error {
	fault := &Error{File: l.schema.Name, Line: line, Msg: fmt.Sprintf("%d fields, want %d", fields, len(l.place))}
	switch fields {
	case 1:
		fault.Msg = fmt.Sprintf("1 field, want %d", len(l.place))
	case 2 * len(l.place):
		fault.Advice = setting.Textf("decimal commas? write 1.5, or part the fields by semicolons and give %s", commas)
	}
	return fault
}
