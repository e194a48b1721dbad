package tablefile

import "testing"

func TestExtensionOf(t *testing.T) {
	for path, want := range map[string]string{
		"a.csv": ".csv", "a/b.NPY": ".npy", "a.csv.parquet": ".parquet",
		"a.csv.gz": "", "csv": "", "a.csv/b": "", "": "",
	} {
		if got, err := ExtensionOf(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v, want %q", path, got, err, want)
		}
	}
}
