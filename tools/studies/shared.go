package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// check ends the program where there is an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// must is a value that came without an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// line is the activation of experts that are hyperplanes.
var line = activation(identity.Family)

func activation(f sdk.Family) sdk.Activation { return must(f.Activation(nil)) }

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// share counts how many of some are so.
type share struct{ in, of int }

func (s *share) count(is bool) {
	if s.of++; is {
		s.in++
	}
}

func (s *share) add(o share) { s.in, s.of = s.in+o.in, s.of+o.of }

func (s share) String() string {
	if s.of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %% of %d", 100*float64(s.in)/float64(s.of), s.of)
}

// files are the flags of a study that goes in pieces, each of which adds a line for every fit to a file, and is
// summed up from the files.
type files struct{ to, sum *string }

func fileFlags() files {
	return files{flag.String("to", "", "`file` to which what is printed is added"),
		flag.String("sum", "", "`pattern` of the files that are summed up, where nothing is run")}
}

// add prints a line, and appends it to the file.
func (f files) add(v any) {
	line := append(must(json.Marshal(v)), '\n')
	fmt.Printf("%s", line)
	if *f.to == "" {
		return
	}
	out := must(os.OpenFile(*f.to, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666))
	_, err := out.Write(line)
	check(errors.Join(err, out.Close()))
}

// eachLine does one with every line of the files that the pattern names, which it returns.
func eachLine[T any](pattern string, one func(file string, v T)) []string {
	names := must(filepath.Glob(pattern))
	if len(names) == 0 {
		log.Fatalf("no files %s", pattern)
	}
	for _, name := range names {
		file := must(os.Open(name))
		for lines := json.NewDecoder(file); ; {
			var v T
			err := lines.Decode(&v)
			if err == io.EOF {
				break
			}
			if err != nil {
				log.Fatalf("%s: %v", name, err)
			}
			one(name, v)
		}
		check(file.Close())
	}
	return names
}
