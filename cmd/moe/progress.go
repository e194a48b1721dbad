package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/figures"
)

// bar shows the stages of a fit on a terminal: none where stderr is not one, or
// --quiet or --json is set. It appears after a moment, so that short fits stay
// silent.
type bar struct {
	container *mpb.Progress
	current   *mpb.Bar
	stage     host.Stage
	total     int
	lines     *progressLines // where there is no bar; nil where nothing is shown
	passes    passesMade
}

// passesMade is how often the rows have been read from their file.
type passesMade struct {
	mu   sync.Mutex
	made float64
	at   time.Time // when the first were
	from float64
}

// reading takes how many passes have been made.
func (p *passesMade) reading(passes float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		p.at, p.from = time.Now(), passes
	}
	p.made = max(p.made, passes)
}

// left says how many passes have been made, and how long a usual number of them takes;
// "" where the rows are in memory.
func (p *passesMade) left(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || !(p.made > p.from) {
		return ""
	}
	each := now.Sub(p.at).Seconds() / (p.made - p.from)
	text := fmt.Sprintf("%.1f passes over the file", p.made)
	if p.made >= host.UsualPasses {
		return text
	}
	left := time.Duration(each * (host.UsualPasses - p.made) * float64(time.Second))
	return text + ", about " + max(time.Second, left.Round(time.Second)).String() + " left"
}

// barDelay is how long a fit runs before a bar appears.
const barDelay = 500 * time.Millisecond

func newBar(cmd *cobra.Command) *bar {
	b := new(bar)
	switch {
	case isQuiet(cmd) || wantsJSON(cmd):
	case !interactive():
		b.lines = newProgressLines(cmd.ErrOrStderr())
		b.lines.passes = &b.passes
	default:
		appear := make(chan struct{})
		time.AfterFunc(barDelay, func() { close(appear) })
		b.container = mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(40), mpb.WithRefreshRate(100*time.Millisecond),
			mpb.WithRenderDelay(appear))
	}
	return b
}

func (b *bar) show(stage host.Stage, done, total int) {
	if b.lines != nil {
		b.lines.show(string(stage), done, total)
	}
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
				if left := b.passes.left(time.Now()); left != "" {
					return left
				}
				return timeLeft(time.Since(began), s.Current, s.Total)
			})))
	}
	b.current.SetCurrent(int64(done))
}

// lineEvery is how often a command says where it is, where no bar can.
var lineEvery = 10 * time.Second

// progressLines say where a command is, off a terminal: a line every lineEvery, of what
// was shown last.
type progressLines struct {
	out  io.Writer
	stop chan struct{}

	mu          sync.Mutex
	stage       string
	done, total int
	passes      *passesMade // nil where there are none
}

// newProgressLines begins with lines, until end.
func newProgressLines(out io.Writer) *progressLines {
	p := &progressLines{out: out, stop: make(chan struct{})}
	go func() {
		ticker, began := time.NewTicker(lineEvery), time.Now()
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				p.say(now.Sub(began))
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

func (p *progressLines) show(stage string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.done, p.total = stage, done, total
}

// say writes where the command is after so long.
func (p *progressLines) say(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stage == "" {
		return
	}
	line := fmt.Sprintf("moe: after %s: %s", after.Round(time.Second), p.stage)
	if p.total > 0 {
		line += fmt.Sprintf(", %d of %d", p.done, p.total)
	}
	if p.passes != nil {
		if left := p.passes.left(time.Now()); left != "" {
			line += "; " + left
		}
	}
	fmt.Fprintln(p.out, line)
}

func (p *progressLines) end() { close(p.stop) }

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
	if b.lines != nil {
		b.lines.end()
	}
	if b.container != nil {
		b.drop()
		b.container.Wait()
	}
}

// figureBars show a run of experiments: on a terminal a bar for each figure under
// way and one for all with the time left, elsewhere a line for each figure that is
// finished.
type figureBars struct {
	cmd       *cobra.Command
	container *mpb.Progress
	bars      map[string]*mpb.Bar
	all       *mpb.Bar
	began     time.Time
	end       atomic.Int64 // when all will be done, in nanoseconds of Unix time; 0 if it is too early to tell
	made, of  int
	lines     *progressLines // where there are no bars; nil where nothing is shown
}

// steps is the resolution of the bar for all figures.
const steps = 1000

func newFigureBars(cmd *cobra.Command, figures int) *figureBars {
	b := &figureBars{cmd: cmd, bars: map[string]*mpb.Bar{}, began: time.Now(), of: figures}
	switch {
	case isQuiet(cmd) || wantsJSON(cmd):
	case !interactive():
		b.lines = newProgressLines(cmd.ErrOrStderr())
	default:
		b.container = mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(40), mpb.WithRefreshRate(150*time.Millisecond))
		b.all = b.container.AddBar(steps, mpb.BarPriority(1<<20), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("all", decor.WCSyncSpaceR), decor.Percentage(decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return b.left() })))
	}
	return b
}

func (b *figureBars) show(p experiment.Progress) {
	if left, known := p.Left(time.Since(b.began)); known {
		b.end.Store(time.Now().Add(left).UnixNano())
	}
	if b.lines != nil {
		b.lines.show(p.Figure, p.Done, p.Total)
	}
	if b.container == nil {
		return
	}
	bar := b.bars[p.Figure]
	if bar == nil {
		bar = b.container.AddBar(int64(p.Total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(p.Figure, decor.WCSyncSpaceR), decor.CountersNoUnit("%d / %d",
				decor.WCSyncSpace)))
		b.bars[p.Figure] = bar
	}
	bar.SetCurrent(int64(p.Done))
	b.all.SetCurrent(int64(steps * p.Share))
}

// left says how much longer it takes, or nothing.
func (b *figureBars) left() string {
	end := b.end.Load()
	if end == 0 {
		return ""
	}
	return "about " + max(0, time.Until(time.Unix(0, end))).Round(time.Second).String() + " left"
}

// finished says that a figure is done.
func (b *figureBars) finished(f figures.Figure) {
	b.made++
	verdict := "agrees"
	if !f.Verdict.Agrees {
		verdict = "does not agree"
	}
	if b.container != nil {
		fmt.Fprintf(b.container, "%-13s %-14s %s\n", f.ID, verdict, f.Title)
		return
	}
	line := fmt.Sprintf("moe: %s %s, %d of %d", f.ID, verdict, b.made, b.of)
	if left := b.left(); left != "" && b.made < b.of {
		line += ", " + left
	}
	if !wantsJSON(b.cmd) {
		remark(b.cmd, "%s", line)
	}
}

// done removes the bars.
func (b *figureBars) done() {
	if b.lines != nil {
		b.lines.end()
	}
	if b.container == nil {
		return
	}
	for _, bar := range b.bars {
		bar.Abort(true)
	}
	b.all.Abort(true)
	b.container.Wait()
}
