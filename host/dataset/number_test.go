package dataset

import (
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/testslow"
)

// decimal is the grammar that number documents.
var decimal = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// checkNumber compares number with the grammar and with strconv, to the bit.
func checkNumber(t *testing.T, text string) {
	t.Helper()
	got, n := number([]byte(text))
	whole := n > 0 && n == len(text)
	if want := decimal.MatchString(text); whole != want {
		t.Fatalf("number(%q) takes %d bytes; is it a number? %v", text, n, want)
	}
	if !whole {
		return
	}
	want, _ := strconv.ParseFloat(text, 64)
	if math.Float64bits(got) != math.Float64bits(want) {
		t.Fatalf("number(%q) = %b, want %b", text, got, want)
	}
}

func TestNumberGrammar(t *testing.T) {
	for _, text := range []string{
		"", "+", "-", ".", "-.", "e5", "1e", "1e+", "1e-", ".e1", "+.5", "-5.", "0", "-0", "00.100", "1E5", "1e05",
		"1e999", "-1e999", "1e-999", "5e-324", "2.2250738585072011e-308", "NaN", "nan", "Inf", "-Inf", "infinity",
		"0x1p3", "0X1P-2", "1_000", "1,5", "1 ", " 1", "1.2.3", "--1", "1e5.5", "१", "1f", "NA", "0b1", "1d5", "1\x00",
		"9007199254740993", "9007199254740992.9999999", "1.7976931348623159e308", "18446744073709551615", "9999999999999999999",
		"0.9999999999999999999", "99999999999999999999", "0.0000000000000000001", "1.0000000000000002", "0.30000000000000004",
	} {
		checkNumber(t, text)
	}
}

func TestNumberRoundsCorrectly(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		v := math.Float64frombits(rng.Uint64())
		if !numeric.Finite(v) {
			continue
		}
		checkNumber(t, strconv.FormatFloat(v, 'g', -1, 64))
		// Numbers of ordinary size with few and with many places.
		w := rng.NormFloat64() * math.Pow(10, float64(rng.IntN(9)-4))
		checkNumber(t, strconv.FormatFloat(w, 'f', rng.IntN(20), 64))
		checkNumber(t, strconv.FormatFloat(w, 'g', 1+rng.IntN(19), 64))
		// A 64-bit mantissa and a point anywhere in it.
		digits := strconv.FormatUint(rng.Uint64()>>rng.IntN(60), 10)
		at := rng.IntN(len(digits) + 1)
		checkNumber(t, digits[:at]+"."+digits[at:])
	}
}

// Halfway between two neighbouring float64s a decimal rounds to the even one,
// and its neighbours in the last place round away from it.
func TestNumberTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		// A 54-bit integer over a power of two has a finite decimal expansion.
		shift := rng.IntN(5)
		m := new(big.Int).SetUint64(rng.Uint64()>>10 | 1<<53 | 1)
		m.Mul(m, new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(shift)), nil)) // m/2^shift = m·5^shift/10^shift
		for _, step := range []int64{-1, 0, 1} {
			digits := new(big.Int).Add(m, big.NewInt(step)).String()
			checkNumber(t, digits[:len(digits)-shift]+"."+digits[len(digits)-shift:])
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, text := range []string{"1", "-0.5", "1e5", "0x1p3", "1_000", "9007199254740993", "1.7976931348623159e308"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkNumber(t, text) })
}
