package moe_test

import (
	"cmp"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// required finds a module and its version in go.mod.
var required = regexp.MustCompile(`(?m)^\s+(\S+) (v\S+)`)

// TestLeastVersions: no module is required in a version of which a vulnerability is
// known. govulncheck says more, where its database can be had.
func TestLeastVersions(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, m := range required.FindAllStringSubmatch(string(mod), -1) {
		has[m[1]] = m[2]
	}
	list, err := os.ReadFile(".ci/least-versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		is, ok := has[words[0]]
		if !ok {
			t.Errorf("%s is in the list and not in go.mod: take it out", words[0])
			continue
		}
		compared++
		if compareVersions(t, is, words[1]) < 0 {
			t.Errorf("%s %s has known vulnerabilities (%s): want %s or later", words[0], is, strings.Join(words[2:], ", "), words[1])
		}
	}
	if compared == 0 {
		t.Error("nothing to compare")
	}
}

// compareVersions compares v1.2.3 with v1.10.0; one with a suffix, as that of a
// commit, is earlier than the version itself.
func compareVersions(t *testing.T, a, b string) int {
	t.Helper()
	split := func(v string) (numbers [3]int, suffix string) {
		base, suffix, _ := strings.Cut(strings.TrimPrefix(v, "v"), "-")
		for i, part := range strings.SplitN(base, ".", 3) {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatalf("%s is no version", v)
			}
			numbers[i] = n
		}
		return numbers, suffix
	}
	na, sa := split(a)
	nb, sb := split(b)
	for i := range na {
		if c := cmp.Compare(na[i], nb[i]); c != 0 {
			return c
		}
	}
	if sa == "" || sb == "" {
		return cmp.Compare(len(sb), len(sa))
	}
	return strings.Compare(sa, sb)
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"v0.0.0-20180816102801-aaf60122140d", "v0.0.0-20190125091013-d26f9f9a57f3", "v0.0.0", "v0.9.9", "v0.10.0", "v1.2.3-rc1", "v1.2.3", "v1.10.0", "v2.0.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := compareVersions(t, a, b); got != cmp.Compare(i, j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}
