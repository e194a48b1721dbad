package jsonfile

import (
	"fmt"
	"os"
	"testing"
)

// A pipe gives its text once: to the head, and to what the file holds.
func TestPipe(t *testing.T) {
	for _, format := range []string{"one", "two"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, `{"format": %q}`, format)
		w.Close()
		path := fmt.Sprintf("/dev/fd/%d", r.Fd())
		file, head, err := OpenHead(path)
		if err != nil || head.Format != format {
			t.Fatalf("%+v, error %v", head, err)
		}
		var v struct {
			Format string `json:"format"`
		}
		size := func() (k, d int) { return 0, 0 }
		if _, err := file.Sized(&v, size); err != nil || v.Format != format {
			t.Errorf("%+v, error %v", v, err)
		}
		if _, _, err := OpenHead(path); err == nil {
			t.Error("the pipe is read a second time")
		}
		r.Close()
	}
}
