// Package envelope writes and reads a checkpoint in JSON: its format, a checksum and its state.
package envelope

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

type envelope struct {
	Format string `json:"format"` // first: what a file is can be told from its beginning
	// SHA256 is that of the state without blanks between its tokens.
	SHA256 string          `json:"sha256"`
	State  json.RawMessage `json:"state"`
}

// Marshal is the checkpoint whose state is v. A type that is its own json.Marshaler hands in what has none
// of its methods.
func Marshal(format string, v any) ([]byte, error) {
	state, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{format, checksum(state), state})
}

// Unmarshal reads the state of a checkpoint of this format into v. Of one that is another version's or
// damaged the error is what refuse makes of the reason; others are those of encoding/json.
func Unmarshal(data []byte, format string, v any, refuse func(msg string) error) error {
	var file envelope
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	if file.Format != format {
		return refuse(fmt.Sprintf("the checkpoint's format is %q, want %q: it is another version's; start anew "+
			"without it", file.Format, format))
	}
	var state bytes.Buffer
	if json.Compact(&state, file.State) != nil {
		return refuse("the checkpoint is damaged: it has no state")
	}
	if checksum(state.Bytes()) != file.SHA256 {
		return refuse("the checkpoint is damaged: its checksum is another than when it was written; start anew " +
			"without it")
	}
	return json.Unmarshal(state.Bytes(), v)
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
