package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/gatedlearning/moe/host"
)

// bar shows the stages of a fit on a terminal: none where stderr is not one, or
// --quiet or --json is set. It appears after a moment, so that short fits stay
// silent.
type bar struct {
	container *mpb.Progress
	current   *mpb.Bar
	stage     host.Stage
	total     int
}

// barDelay is how long a fit runs before a bar appears.
const barDelay = 500 * time.Millisecond

func newBar(cmd *cobra.Command) *bar {
	b := new(bar)
	if interactive() && !isQuiet(cmd) && !wantsJSON(cmd) {
		appear := make(chan struct{})
		time.AfterFunc(barDelay, func() { close(appear) })
		b.container = mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(40), mpb.WithRefreshRate(100*time.Millisecond), mpb.WithRenderDelay(appear))
	}
	return b
}

func (b *bar) show(stage host.Stage, done, total int) {
	if b.container == nil {
		return
	}
	if b.current == nil || stage != b.stage || total != b.total {
		b.drop()
		b.stage, b.total = stage, total
		began := time.Now()
		b.current = b.container.AddBar(int64(max(total, 1)), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(string(stage), decor.WCSyncSpaceR), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
				return timeLeft(time.Since(began), s.Current, s.Total)
			})))
	}
	b.current.SetCurrent(int64(done))
}

// timeLeft estimates how long a stage goes on, from its pace so far. It is a
// bound: most fits need fewer starts than they may make.
func timeLeft(elapsed time.Duration, done, total int64) string {
	text := elapsed.Round(time.Second).String()
	if done <= 0 || done >= total {
		return text
	}
	left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
	return text + ", at most " + left.Round(time.Second).String() + " left"
}

func (b *bar) drop() {
	if b.current != nil {
		b.current.Abort(true)
		b.current = nil
	}
}

// done removes the bar.
func (b *bar) done() {
	if b.container != nil {
		b.drop()
		b.container.Wait()
	}
}
