// Package moebeam makes the passes of package shard as Apache Beam pipelines, on any of
// Beam's runners: a ParDo sums the shards, Combines join their sums as they stand next to
// each other, and the last writes the file that moe merge would.
//
// A pass is a pipeline. Its elements are the numbers of the shards and the files of their
// sums as bytes; the rows are read where the shards are summed, from files that all workers see
// under the same name. The sums of a pass do not depend on who adds what when: those of
// the moments to the byte, those of Newton's method within rounding.
package moebeam

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard"
)

// Kinds of passes.
const (
	First  = "first"  // [shard.Sum]
	Second = "second" // [shard.SumSpan]
	Newton = "newton" // [newton.Sum]
)

const (
	// FanIn is how many messages at most are joined to one.
	FanIn = 32
	// MostBytes bounds a message. A pass with a larger one fails and says so.
	MostBytes = 64 << 20
)

func init() {
	register.DoFn3x1[context.Context, int, func(int, []byte), error](&sumFn{})
	register.DoFn2x2[int, []byte, int, []byte](&upFn{})
	register.DoFn3x1[context.Context, int, []byte, error](&writeFn{})
	register.Combiner1[[]byte](&joinFn{})
	register.Emitter2[int, []byte]()
	beam.RegisterType(reflect.TypeFor[Pass]())
}

// Pass is one pass over all rows.
type Pass struct {
	Kind   string
	Data   []string // files of rows, read one behind the other
	Table  Columns
	Given  string // Second: the file of the first round; Newton: the model
	Second Span
	Sample shard.Subsample // First
	Shards int
	Out    string // the file to write: of the whole of the moments, or of one part that is all
}

// Columns names columns; empty names are those that moe moments takes by default.
type Columns struct {
	Target, Weights string
	Groups          string // Newton; of ids, "" those of the model
	Features        []string
}

// roles are those of the columns that have one.
func (c Columns) roles() dataset.Roles {
	return dataset.Roles{model.Weights: c.Weights, model.Groups: c.Groups}
}

// Span is what a second round is made for.
type Span struct {
	Activation string
	Params     map[string]float64
	K          int
	Sigma      float64 // 0: to be estimated
	Family     string  // of the target; "" is gaussian
	Dof        float64 // of the family student-t; 0: to be estimated
	// "" is polynomial, or of other families than gaussian optimal, which takes a third pass, Second given the file of
	// the second
	Transform string
}

// Runner executes a pipeline: beamx.Run, or one runner's Execute.
type Runner func(ctx context.Context, p *beam.Pipeline) error

// Run makes the pass as a pipeline. Where the runner gives up it starts it again, up to
// so many times: Prism does not try the bundles of a worker that failed again, as Flink, Spark and
// Dataflow do. A pass changes nothing but its output, which is there whole or not at all.
func (p Pass) Run(ctx context.Context, run Runner, again int) error {
	if p.Shards < 1 {
		return fmt.Errorf("%d shards: want at least 1", p.Shards)
	}
	for try := 0; ; try++ {
		pipeline, scope := beam.NewPipelineWithRoot()
		p.build(scope)
		err := run(ctx, pipeline)
		if err == nil || try == again || ctx.Err() != nil {
			return err
		}
		log.Warnf(ctx, "the pass is started again: %v", err)
	}
}

// build adds the pass to a pipeline: sums of the shards, then joins of FanIn neighbours
// each until one is left.
func (p Pass) build(s beam.Scope) {
	shards := make([]int, p.Shards)
	for i := range shards {
		shards[i] = i + 1
	}
	sums := beam.ParDo(s, &sumFn{Pass: p}, beam.Reshuffle(s, beam.CreateList(s, shards)))
	for left := p.Shards; ; left = (left + FanIn - 1) / FanIn {
		sums = beam.CombinePerKey(s, &joinFn{Kind: p.Kind}, beam.ParDo(s, &upFn{}, sums))
		if left <= FanIn {
			break
		}
	}
	beam.ParDo0(s, &writeFn{Pass: p}, sums)
}

// sumFn sums the shard of that number.
type sumFn struct{ Pass Pass }

// beforeSum is called by the test that makes a worker fail.
var beforeSum = func(shardNumber int) {}

// ProcessElement emits the sums of shard i, counted from 1, under its number counted from
// 0.
func (f *sumFn) ProcessElement(ctx context.Context, i int, emit func(int, []byte)) error {
	beforeSum(i)
	data, err := f.Pass.sum(ctx, shard.Place{I: i, N: f.Pass.Shards})
	if err != nil {
		return err
	}
	emit(i-1, framed(data))
	return nil
}

// upFn gives FanIn neighbours one key.
type upFn struct{}

// ProcessElement divides the key.
func (*upFn) ProcessElement(at int, data []byte) (int, []byte) { return at / FanIn, data }

// writeFn merges what is left and writes it.
type writeFn struct{ Pass Pass }

// ProcessElement writes the one element there is.
func (f *writeFn) ProcessElement(ctx context.Context, _ int, acc []byte) error {
	return f.Pass.write(ctx, acc)
}

var errSize = errors.New("a message is larger than allowed: take a smaller --subsample, or fewer features")
