package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gatedlearning/moe/internal/pluginproc"
)

// interpreterOf returns the interpreter that a script names in its first line, nil
// for other files. One that is looked for in PATH, as env does, could be another
// each time, and is refused.
func interpreterOf(shown string, img *pluginproc.Image) (*Interpreter, error) {
	head, err := img.Head()
	if err != nil {
		return nil, err
	}
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if !isScript {
		return nil, nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	fields := strings.Fields(string(line))
	switch {
	case len(fields) == 0 || !filepath.IsAbs(fields[0]):
		return nil, badFile(shown, "its first line names no interpreter by an absolute path")
	case filepath.Base(fields[0]) == "env":
		return nil, &UntrustedError{shown,
			fmt.Sprintf("its first line leaves it to %s and PATH which interpreter runs it: name that by its path, "+
				"such as #!/usr/bin/python3", fields[0])}
	}
	path, err := filepath.EvalSymlinks(fields[0])
	if err != nil {
		return nil, fileFault(shown, err)
	}
	f, err := openRegular(path)
	if err != nil {
		return nil, fileFault(shown, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	return &Interpreter{Path: path, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// sameInterpreter reports whether a script would be run by the interpreter that it
// was trusted with. Records from before interpreters were kept have none.
func sameInterpreter(shown string, img *pluginproc.Image, was *Interpreter) error {
	if was == nil {
		return nil
	}
	now, err := interpreterOf(shown, img)
	if err != nil {
		return err
	}
	if now == nil || *now != *was {
		return &UntrustedError{shown, fmt.Sprintf("its interpreter has changed since it was trusted, and it was not "+
			"run (%s, sha256 %s then); if you trust the new one: moe plugin trust %s", was.Path, was.SHA256, shown)}
	}
	return nil
}
