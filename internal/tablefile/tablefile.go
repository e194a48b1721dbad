// Package tablefile says by its name in which format a table is written.
package tablefile

import (
	"fmt"
	"path/filepath"
	"strings"
)

// ExtensionOf returns path's extension in lower case, and an error unless it is
// that of a format in which tables are written: .csv, .npy or .parquet.
func ExtensionOf(path string) (string, error) {
	switch e := strings.ToLower(filepath.Ext(path)); e {
	case ".csv", ".npy", ".parquet":
		return e, nil
	}
	return "", fmt.Errorf("output %s: want a name that ends in .csv, .npy or .parquet", path)
}
