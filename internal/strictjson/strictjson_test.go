package strictjson_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/internal/strictjson"
)

type inner struct {
	N     int `json:"n"`
	Plain string
	None  int `json:"-"`
}

type outer struct {
	inner
	D    int                `json:"d,omitempty"`
	List []*inner           `json:"list"`
	Maps map[string]inner   `json:"maps"`
	Any  map[string]float64 `json:"any"`
}

// TestMembers: what encoding/json would take for something else is refused, and what it passes
// over is named.
func TestMembers(t *testing.T) {
	for text, want := range map[string]struct {
		unknown []string
		fault   string
	}{
		`{"d": 1, "n": 2, "Plain": "x", "list": [{"n": 1}], "maps": {"a": {}, "A": {}}, "any": {"x": null}}`: {},
		`{"e": 1, "list": [{"m": [{"d": 1}]}, {"none": 2}], "maps": {"d": {"x": {}}}}`:                       {unknown: []string{"e", "list.m", "list.none", "maps.d.x"}},
		`{"d": 1, "d": 1}`:                       {fault: `member "d" stands twice in its object`},
		`{"e": {"x": 1, "\u0078": 2}}`:           {unknown: []string{"e"}, fault: `member "x" stands twice in its object`},
		`{"D": 1}`:                               {fault: `member "D": want "d"`},
		`{"list": [{"N": 1}]}`:                   {fault: `member "N": want "n"`},
		`{"li\u017ft": []}`:                      {fault: "member \"li\u017ft\": want \"list\""},
		`{"list": [null]}`:                       {fault: "null in a list"},
		`{"e": [[1, null]]}`:                     {unknown: []string{"e"}, fault: "null in a list"},
		`{"e": {"gaps": [null, {"x": [null]}]}}`: {unknown: []string{"e"}},
		`{"e": {"gaps": 1, "x": [null]}}`:        {unknown: []string{"e"}, fault: "null in a list"},
		`[1, [2], {"a": 1}]`:                     {},
		`7`:                                      {},
	} {
		found, err := strictjson.Members([]byte(text), reflect.TypeFor[*outer](), "gaps")
		var unknown []string
		for _, u := range found {
			unknown = append(unknown, u.Name)
			if last := u.Name[strings.LastIndexByte(u.Name, '.')+1:]; !strings.HasSuffix(text[:u.Offset], strconv.Quote(last)) {
				t.Errorf("%s: %s stands at %d", text, u.Name, u.Offset)
			}
		}
		if fault := want.fault; (err == nil) != (fault == "") || err != nil && err.Error() != fault || !slices.Equal(unknown, want.unknown) {
			t.Errorf("%s: unknown %q, %v; want %q, %q", text, unknown, err, want.unknown, fault)
		}
	}
}

// TestDecode: a value of another kind is told in the words of JSON.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"d": 1, "list": [{"n": 2}]}`: "",
		`{"d": 1.5}`:                   "d is the number 1.5, want a whole number",
		`{"d": "1"}`:                   "d is a string, want a whole number",
		`{"list": {}}`:                 "list is an object, want an array",
		`{"list": [true]}`:             "list is true or false, want an object",
		`{"any": {"x": 1e400}}`:        "any is the number 1e400, want one that double precision holds",
		`{"any": {"x": []}}`:           "any is an array, want a number",
		`[]`:                           "the file is an array, want an object",
		`{"d": 1`:                      "the file is empty or cut short",
		`{} {}`:                        "something follows the object",
	} {
		var of outer
		err := strictjson.Decode([]byte(text), &of)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
