package toy

import "testing"

func TestToy(t *testing.T) {
	if Six() != 6 || Max(1, 2) != 2 || Max(2, 1) != 2 || Join("a", "b") != "ab" || Less(3, 0) != -5 {
		t.Fail()
	}
}

func TestCount(t *testing.T) {
	if Count(3) != 3 {
		t.Fail()
	}
}
