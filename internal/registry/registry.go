// Package registry keeps values by name for programs and tests that add their own.
package registry

import (
	"maps"
	"slices"
	"sync"
)

// Named is a value that has a name.
type Named interface{ Name() string }

// Registry keeps values by their names. It is safe for concurrent use.
type Registry[V Named] struct {
	mu sync.RWMutex
	of map[string]V
}

// New keeps these values.
func New[V Named](all ...V) *Registry[V] {
	r := &Registry[V]{of: map[string]V{}}
	for _, v := range all {
		r.of[v.Name()] = v
	}
	return r
}

// Add adds a value, and says whether its name was free.
func (r *Registry[V]) Add(v V) (free bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, taken := r.of[v.Name()]
	if !taken {
		r.of[v.Name()] = v
	}
	return !taken
}

// Find returns the value of this name, and whether there is one.
func (r *Registry[V]) Find(name string) (v V, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, known = r.of[name]
	return v, known
}

// Names lists the names, in order.
func (r *Registry[V]) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.of))
}
