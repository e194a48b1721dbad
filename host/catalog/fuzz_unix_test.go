//go:build unix

package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzStore looks for a trust store that trusts what it does not list, or ends in
// anything but records or a refusal.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"format": "moe-trusted-plugins/v1", "plugins": [{"path": "/opt/p", "sha256": "00", "name": "softplus", "parameters": [{"name": "beta", "default": 1, "min": 0, "max": 2}]}]}`))
	f.Add([]byte(`{"format": "moe-trusted-plugins/v1", "plugins": [{"path": "relative", "name": "relu"}, {"path": "", "name": "relu"}, {}]}`))
	f.Add([]byte(`{"format": "moe-trusted-plugins/v2"}`))
	f.Add([]byte(`{"format": "moe-trusted-plugins/v1", "plugins": null} {`))
	f.Add([]byte{})
	c := Catalog{Dir: f.TempDir()}
	path := filepath.Join(c.Dir, storeName)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		records, err := c.Trusted()
		if refused := (*UntrustedError)(nil); err != nil {
			if !errors.As(err, &refused) || len(records) > 0 {
				t.Errorf("%d records, %v (%T)", len(records), err, err)
			}
			return
		}
		for _, r := range records {
			if r.Name == "" {
				continue
			}
			found, err := c.find(r.Name, Builtins())
			if err != nil || len(found) == 0 || found[0].Name != r.Name {
				t.Errorf("%q: found %v, %v", r.Name, found, err)
			}
		}
		if _, err := c.find("no name has\x00this", Builtins()); err == nil {
			t.Error("found what is not there")
		}
		if err := c.record(t.Context(), Record{Path: "/opt/another", SHA256: "11"}); err != nil {
			t.Fatal(err)
		}
		if again, err := c.Trusted(); err != nil || len(again) == 0 || len(again) > len(records)+1 {
			t.Errorf("%d records and one more are %d: %v", len(records), len(again), err)
		}
	})
}

// FuzzLock looks for a lock file that allows what it does not list.
func FuzzLock(f *testing.F) {
	f.Add([]byte(`{"format": "moe-lock/v1", "plugins": [{"name": "softplus", "sha256": "00"}]}`))
	f.Add([]byte(`{"format": "moe-lock/v1"}`))
	f.Add([]byte(`{"format": "moe-lock/v2", "plugins": []}`))
	f.Add([]byte(`[]`))
	f.Add([]byte{})
	l := lock(filepath.Join(f.TempDir(), DefaultLock))
	const own = "0123456789abcdef"
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(l.path(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		entries, exists, err := l.read()
		if refused := (*UntrustedError)(nil); !exists || err != nil && !errors.As(err, &refused) {
			t.Errorf("exists: %v, %v (%T)", exists, err, err)
		}
		listed := false
		for _, e := range entries {
			listed = listed || e.SHA256 == own
		}
		if allowed := l.allows("plugin", own) == nil; allowed != (err == nil && listed) {
			t.Errorf("allowed: %v, listed: %v, %v", allowed, listed, err)
		}
		if err != nil {
			return
		}
		if err := l.pin(t.Context(), Record{Name: "pinned", SHA256: own}); err != nil {
			t.Fatal(err)
		}
		if err := l.allows("plugin", own); err != nil {
			t.Errorf("pinned and not allowed: %v", err)
		}
	})
}
