package dataset

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatedlearning/moe/internal/setting"
)

// Absent says what becomes of rows with missing cells: cells that are empty, NA,
// NaN or null in a CSV file, NaN in an array, null in a Parquet file.
type Absent int

// What can become of a row with a missing cell.
const (
	Refuse Absent = iota // an error that counts them
	Drop                 // it is left out
	Keep                 // it stays, with NaN for the cell
)

// Kind is what the text of a cell is.
type Kind int

// The kinds of cells.
const (
	Number  Kind = iota // a finite decimal number
	Missing             // no value
	Spelled             // a number, but not a finite decimal one: 1,5 1_000 0x1p3 1e999 Inf
	Date                // a date or a time of day
	Word                // anything else
)

// KindOf returns what the text of a cell is, where decimals are written with point.
func KindOf(text []byte, point byte) Kind {
	if v, n := numberWith(text, point); n > 0 && n == len(text) && v-v == 0 {
		return Number
	}
	switch string(text) {
	case "", "NA", "NaN", "nan", "null", "NULL":
		return Missing
	}
	switch {
	case isDate(string(text)):
		return Date
	case isSpelled(string(text)):
		return Spelled
	}
	return Word
}

// hint is what an error adds about a cell of this kind; the zero value where it adds nothing.
func (k Kind) hint() setting.Text {
	if k == Date {
		return setting.Textf("a date? leave the column out with %s, or write it as a number, such as days since a "+
			"start", setting.Key("drop"))
	}
	return setting.Text{}
}

// spelled are numbers as people and programs write them that are not plain
// decimals: digits in groups, decimal commas, per cent.
var spelled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?[$€£]?(\d[\d.,_' ]*|[.,]\d[\d.,_' ]*)([eE][+-]?\d+)?\s*[%$€£]?$`)
})

// grouped are numbers with commas between their thousands.
var grouped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$`)
})

// isGrouped says whether the commas of a number may stand between its thousands.
func isGrouped(text string) bool { return grouped().MatchString(text) }

func isSpelled(text string) bool {
	if spelled().MatchString(text) {
		return true
	}
	// Hexadecimal, Inf, infinity; numbers too large for a float64. What strconv
	// takes for a number and this package does not.
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || strings.Contains(err.Error(), strconv.ErrRange.Error())
}

// dates are the ways of writing a date or a time that are told apart from words.
var dates = []string{
	time.DateOnly, "2006/01/02", "02.01.2006", "2.1.2006", "2.1.06", "01/02/2006", "02/01/2006", "1/2/2006", "2/1/2006",
	"1/2/06", "2-Jan-2006", "2 Jan 2006",
	"2 January 2006", "Jan 2, 2006", "January 2, 2006", "2006-01", time.DateTime, time.RFC3339, "2006-01-02T15:04:05",
	"2006-01-02T15:04", "2006-01-02 15:04",
	"2006/01/02 15:04:05", "02.01.2006 15:04", "02.01.2006 15:04:05", "1/2/2006 15:04", "15:04", time.TimeOnly,
}

func isDate(text string) bool {
	if len(text) < len("15:04") || len(text) > len("2006-01-02T15:04:05.000000000+00:00") || !strings.ContainsAny(text,
		"-/.: ") || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	for _, layout := range dates {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// decimalCommas returns b with its comma as a point.
func decimalCommas(b []byte) []byte { return bytes.Replace(b, []byte{','}, []byte{'.'}, 1) }
