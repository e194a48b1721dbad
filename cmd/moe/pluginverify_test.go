package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/catalog"
)

// TestEnded: what was found before a plugin ended stands, the check in which it did has its fault, and what was found since,
// right or wrong or to be known, is not checked.
func TestEnded(t *testing.T) {
	fault := &catalog.FaultError{Plugin: "p", Call: "Eval", Reason: "it ended"}
	wrong := verifyFinding{Check: "before", Problem: "wrong", err: errors.New("wrong")}
	for name, at := range map[string]verifyFinding{
		"in an error":   {Check: "at", Problem: "Eval of 5 values: " + fault.Error(), err: fault},
		"in a warning":  {Check: "at", OK: true, Warning: "Eval at z = 100 fails: " + fault.Error()},
		"without cause": {Check: "at", OK: true},
	} {
		v := &verification{Groups: []verifyGroup{
			{"one", []verifyFinding{{Check: "first", OK: true}, wrong, at}},
			{"two", []verifyFinding{{Check: "right", OK: true}, {Check: "none", OK: true, Absent: true}, wrong,
				{Check: "known", OK: true, Warning: "to be known"}}},
		}}
		end(v.Groups, fault)
		one, two := v.Groups[0].Findings, v.Groups[1].Findings
		if name == "without cause" {
			if v.count((*verifyFinding).unchecked) != 0 || v.fault() != nil {
				t.Errorf("%s: %+v", name, v.Groups)
			}
			continue
		}
		if !one[0].OK || one[1].Problem != "wrong" || one[2].OK || v.fault() != error(fault) {
			t.Errorf("%s: %+v, fault %v", name, one, v.fault())
		}
		for _, f := range two {
			if want := (verifyFinding{Check: f.Check, Unchecked: true}); f != want {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if failed, warned := v.count((*verifyFinding).failed), v.count((*verifyFinding).warned); failed != 2 || warned != 0 {
			t.Errorf("%s: %d failed, %d warned", name, failed, warned)
		}
		var b bytes.Buffer
		if err := v.text(&b, nil); err != nil {
			t.Fatal(err)
		}
		if s := b.String(); strings.Count(s, "not checked") != 4 || !strings.Contains(s, "2 of the checks failed, and 4 were not made") {
			t.Errorf("%s: %s", name, s)
		}
	}
}
