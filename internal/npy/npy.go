// Package npy reads the headers of NPY files, in which numpy keeps arrays of numbers.
package npy

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/gatedlearning/moe/internal/badfile"
)

// Magic begins an NPY file.
const Magic = "\x93NUMPY"

const maxHeader = 1 << 20 // numpy itself writes a few hundred bytes at most

// Fault says what is wrong with a file, without its name.
type Fault = badfile.Fault

// Header describes the array of an NPY file.
type Header struct {
	Offset  int64   // of the first value in the file
	Shape   []int64 // none is negative
	Fortran bool    // the first index varies fastest
	Size    int64   // bytes of a value
	Native  bool    // values are little-endian float64
	Decode  func(b []byte) float64
	Fields  []string // the names of an array of records, whose last dimension they are; nil elsewhere
}

// ReadHeader reads the magic, version, length and dictionary of an NPY file,
// versions 1 to 3. What is wrong with them is a [Fault].
func ReadHeader(r io.Reader) (*Header, error) {
	fixed, err := readBytes(r, 8)
	if err != nil {
		return nil, err
	}
	if string(fixed[:6]) != Magic {
		return nil, Fault("no NPY file")
	}
	lengthSize := int64(4)
	switch major := fixed[6]; major {
	case 1:
		lengthSize = 2
	case 2, 3:
	default:
		return nil, badfile.Faultf("NPY version %d, want 1, 2 or 3", major)
	}
	length, err := readBytes(r, lengthSize)
	if err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(append(length, 0, 0)))
	if n > maxHeader {
		return nil, badfile.Faultf("a header of %d bytes, want at most %d", n, maxHeader)
	}
	text, err := readBytes(r, n)
	if err != nil {
		return nil, err
	}
	header := string(text)
	if fixed[6] < 3 {
		header = latin1(text)
	}
	h, err := parse(header)
	if err != nil {
		return nil, err
	}
	h.Offset = 8 + lengthSize + n
	return h, nil
}

// latin1 decodes ISO 8859-1, in which numpy writes headers of versions 1 and 2; version 3 is UTF-8.
func latin1(text []byte) string {
	out := make([]rune, len(text))
	for i, b := range text {
		out[i] = rune(b)
	}
	return string(out)
}

func readBytes(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, Fault("the header is cut short")
	} else if err != nil {
		return nil, err
	}
	return b, nil
}

// pattern compiles a pattern when it is first used: most commands read no header.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// The header is a Python dictionary with three keys in any order.
var (
	descrKey   = pattern(`['"]descr['"]\s*:\s*(?:'([^']*)'|"([^"]*)"|([\[(]))`)
	fortranKey = pattern(`['"]fortran_order['"]\s*:\s*(True|False)`)
	shapeKey   = pattern(`['"]shape['"]\s*:\s*\(([0-9L,\s]*)\)`)
	recordKey  = pattern(
		`['"]descr['"]\s*:\s*\[((?:\s*\(\s*(?:'[^'\\]*'|"[^"\\]*")\s*,\s*'[^'\\]*'\s*\)\s*,?)+)\s*\]`)
	recordPart = pattern(`\(\s*(?:'([^'\\]*)'|"([^"\\]*)")\s*,\s*'([^'\\]*)'\s*\)`)
)

func parse(text string) (*Header, error) {
	text, fields, number, err := records(text)
	if err != nil {
		return nil, err
	}
	descr := descrKey().FindStringSubmatch(text)
	fortran := fortranKey().FindStringSubmatch(text)
	shape := shapeKey().FindStringSubmatch(text)
	switch {
	case descr == nil || fortran == nil || shape == nil:
		const most = 20
		if len(text) > most {
			return nil, badfile.Faultf("the header lacks descr, fortran_order or shape: %q…", text[:most])
		}
		return nil, badfile.Faultf("the header lacks descr, fortran_order or shape: %q", text)
	case descr[3] != "" && fields == nil:
		return nil, badfile.Faultf("an array of records, want one number type for all columns")
	case fields == nil:
		number = descr[1] + descr[2]
	}
	h := &Header{Fortran: fortran[1] == "True", Fields: fields}
	if h.Size, h.Decode, err = numberType(number); err != nil {
		return nil, err
	}
	h.Native = number == "<f8"
	if h.Shape, err = dimensions(shape[1]); err != nil {
		return nil, err
	}
	if fields != nil {
		h.Shape = append(h.Shape, int64(len(fields)))
		h.Fortran = h.Fortran && len(h.Shape) > 2 // one dimension of records lies in rows either way
	}
	return h, nil
}

// records reads the names of an array whose every record is numbers of one type, such as
// [('age', '<f8'), ('dose', '<f8')]: an array with the fields as its last dimension.
func records(text string) (rest string, fields []string, number string, err error) {
	at := recordKey().FindStringSubmatchIndex(text)
	if at == nil {
		return text, nil, "", nil
	}
	for _, part := range recordPart().FindAllStringSubmatch(text[at[2]:at[3]], -1) {
		if number != "" && part[3] != number {
			return "", nil, "", badfile.Faultf("an array of records, want one number type for all columns, not %q "+
				"and %q", number, part[3])
		}
		number, fields = part[3], append(fields, part[1]+part[2])
	}
	// What else the header says is looked for outside the names.
	return text[:at[0]] + "'descr': '" + number + "'" + text[at[1]:], fields, number, nil
}

// dimensions reads "n, d".
func dimensions(text string) (dims []int64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSuffix(strings.TrimSpace(part), "L")
		if part == "" {
			continue
		}
		v, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, badfile.Faultf("shape (%s) is out of range", text)
		}
		dims = append(dims, v)
	}
	return dims, nil
}

// numberType returns the size and the reader of a dtype such as "<f8".
func numberType(descr string) (int64, func([]byte) float64, error) {
	kind := strings.TrimLeft(descr, "<>|=")
	var order binary.ByteOrder = binary.LittleEndian
	if strings.HasPrefix(descr, ">") {
		order = binary.BigEndian
	}
	switch kind {
	case "f8":
		if order == binary.LittleEndian { // the commonest, without a call through an interface
			return 8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }, nil
		}
		return 8, func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) }, nil
	case "f4":
		return 4, func(b []byte) float64 { return float64(math.Float32frombits(order.Uint32(b))) }, nil
	case "i8":
		return 8, func(b []byte) float64 { return float64(int64(order.Uint64(b))) }, nil
	case "i4":
		return 4, func(b []byte) float64 { return float64(int32(order.Uint32(b))) }, nil
	case "i2":
		return 2, func(b []byte) float64 { return float64(int16(order.Uint16(b))) }, nil
	case "i1":
		return 1, func(b []byte) float64 { return float64(int8(b[0])) }, nil
	case "u8":
		return 8, func(b []byte) float64 { return float64(order.Uint64(b)) }, nil
	case "u4":
		return 4, func(b []byte) float64 { return float64(order.Uint32(b)) }, nil
	case "u2":
		return 2, func(b []byte) float64 { return float64(order.Uint16(b)) }, nil
	case "u1", "b1":
		return 1, func(b []byte) float64 { return float64(b[0]) }, nil
	}
	return 0, nil, badfile.Faultf("values of type %q, want float64, float32, integers or bool", descr)
}
