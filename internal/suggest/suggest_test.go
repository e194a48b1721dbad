package suggest

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"identity", "relu", "leakyrelu", "sigmoid"}
	for name, want := range map[string]string{
		"identiy": "identity", "RELU": "relu", "relu": "relu", "rlu": "relu", "sgmoid": "sigmoid",
		"": "", "x": "", "softmax": "", "polynomial": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestDistance: by hand.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}, {"ab", "ba", 2}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
