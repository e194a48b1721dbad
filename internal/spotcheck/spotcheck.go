// Package spotcheck draws rows of batches to be looked at again, by numbers that
// nobody outside of the process can know: an activation in another process cannot
// tell which of its values will be compared. What is drawn decides nothing but
// whether to go on.
package spotcheck

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
)

// Row is one value of a batch.
type Row struct {
	At       int // its row in the batch
	Z, Value float64
}

// early is the number of batches of which more rows are drawn, and period the number
// of batches after which the rows drawn are due: so they are at the 1st, 2nd, 4th, 8th …
// batch, and at every 64th.
const (
	early  = 64
	period = 64
)

// Sample draws of every batch among the first 64 First rows, of every later one
// Later, with equal probabilities and each by itself; of a batch that has no more
// rows than that, all, the last one first. Of B batches that have more these are
//
//	m = First·min(B, 64) + Later·max(B − 64, 0)
//
// rows, and where a share q of each batch's values is wrong, none of the wrong ones is
// drawn with probability (1 − q)^m. It is safe for concurrent use.
type Sample struct {
	First, Later int

	mu      sync.Mutex
	random  *rand.Rand // nil before the first batch
	batches int
	rows    []Row
}

// Draw counts a batch of n values and returns which of its rows are drawn, and
// the batch's number, from 1.
func (s *Sample) Draw(n int) (at []int, batch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random == nil {
		var seed [32]byte
		crand.Read(seed[:]) // ends the process where it fails
		s.random = rand.New(rand.NewChaCha8(seed))
	}
	s.batches++
	count := s.Later
	if s.batches <= early {
		count = s.First
	}
	if n <= count {
		for i := n - 1; i >= 0; i-- {
			at = append(at, i)
		}
		return at, s.batches
	}
	at = make([]int, count)
	for i := range at {
		at[i] = s.random.IntN(n)
	}
	return at, s.batches
}

// Keep keeps the rows that were drawn of a batch. Where the rows kept are due with
// it they come back, and are kept no longer.
func (s *Sample) Keep(batch int, rows []Row) (due []Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, rows...)
	if batch&(batch-1) != 0 && batch%period != 0 {
		return nil
	}
	return s.take()
}

// Rest returns the rows kept since they were last due: those of the end.
func (s *Sample) Rest() []Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take()
}

func (s *Sample) take() []Row {
	rows := s.rows
	s.rows = nil
	return rows
}
