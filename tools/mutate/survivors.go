package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A verdict is what a line of the output says of one mutant.
type verdict struct {
	status, file string
	line, column int
	change       string // "+→-"
}

// judged reads the verdicts of one or more outputs. Of a mutant that was run more than
// once, as with -only, the last counts.
func judged(output []byte) []verdict {
	said := regexp.MustCompile(`(?m)^ *([A-Z ]+) ([A-Z_]+ at (\S+):(\d+):(\d+))  (\S+) -> (\S+)`)
	place := map[string]int{}
	var out []verdict
	for _, m := range said.FindAllStringSubmatch(string(output), -1) {
		line, _ := strconv.Atoi(m[4])
		column, _ := strconv.Atoi(m[5])
		v := verdict{m[1], m[3], line, column, m[6] + "→" + m[7]}
		if at, ok := place[m[2]]; ok {
			out[at] = v
			continue
		}
		place[m[2]] = len(out)
		out = append(out, v)
	}
	return out
}

// survivors writes what outputs that were kept say of a package: a row of a Markdown table
// for every line of code with mutants that lived, its last column empty, and the counts.
func survivors(w io.Writer, dir, kept string) error {
	output, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	all := judged(output)
	counts := map[string]int{}
	changes := map[string][]string{} // of each row
	var lived []verdict
	for _, v := range all {
		counts[v.status]++
		if v.status == "LIVED" {
			lived = append(lived, v)
		}
	}
	slices.SortStableFunc(lived, func(a, b verdict) int {
		if a.file != b.file {
			return strings.Compare(a.file, b.file)
		}
		if a.line != b.line {
			return a.line - b.line
		}
		return a.column - b.column
	})
	rows := map[string]string{} // by file and line of code: what stands there twice is one row
	var order []string
	for _, v := range lived {
		source, err := os.ReadFile(filepath.Join(dir, v.file))
		if err != nil {
			return err
		}
		lines := strings.Split(string(source), "\n")
		if v.line > len(lines) || v.column > len(lines[v.line-1]) {
			return fmt.Errorf("%s:%d:%d: there is no such place: the code has changed since %s was made", v.file,
				v.line, v.column, kept)
		}
		code := v.file + ": " + strings.TrimSpace(lines[v.line-1])
		if rows[code] == "" {
			rows[code] = fmt.Sprintf("| `%s` | `%s` |", v.file, excerpt(lines[v.line-1], v.column))
			order = append(order, code)
		}
		if !slices.Contains(changes[code], v.change) {
			changes[code] = append(changes[code], v.change)
		}
	}
	for _, code := range order {
		fmt.Fprintf(w, "%s %s | |\n", rows[code], strings.Join(changes[code], ", "))
	}
	summary(w, counts)
	return nil
}

// excerpt is what a table shows of a line of code: with a broken bar for |, which would end
// the cell, and of a long line a part with the operator at a column (1 is the first) in it.
func excerpt(line string, column int) string {
	const most = 80
	before := len(line) - len(strings.TrimLeft(line, "\t "))
	at := utf8.RuneCountInString(line[before:max(before, column-1)])
	code := []rune(strings.NewReplacer("|", "¦", "`", "'").Replace(strings.TrimSpace(line)))
	if len(code) <= most {
		return string(code)
	}
	from := 0
	if at > most*3/4 {
		from = min(at-most/2, len(code)-most)
	}
	s := string(code[from:min(len(code), from+most)])
	if from > 0 {
		s = "…" + s
	}
	if from+most < len(code) {
		s += "…"
	}
	return s
}
