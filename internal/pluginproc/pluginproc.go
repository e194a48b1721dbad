// Package pluginproc runs plugins in processes of their own: it starts, watches,
// confines and stops them, and turns what goes wrong into a [FaultError]. Which
// files may run is for its caller to say. Only Linux has a sandbox for them: what
// confines them elsewhere, and what does not, is in the files of those systems.
package pluginproc

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/gatedlearning/moe/internal/setting"
)

// FaultError is a failure of a plugin: it could not be started, it crashed, it
// hung, or it answered with what no activation may answer.
type FaultError struct {
	Plugin string // the path of its file
	Call   string // what it was asked, such as "Eval"; "start" before any call
	Reason string
	Output string       // what it last printed on stderr, printable; "" if there were none
	Advice setting.Text // what to do; the zero value where the plugin must be repaired
	Err    error        // the cause, where it has a type: a *numeric.NotFiniteError
}

func (e *FaultError) Unwrap() error { return e.Err }

func (e *FaultError) Error() string { return e.Worded(setting.InFile) }

// Worded is the error with the settings of its advice in other words.
func (e *FaultError) Worded(as setting.Words) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s: %s: %s", e.Plugin, e.Call, e.Reason)
	if e.Output != "" {
		fmt.Fprintf(&b, "; it last printed: %s", e.Output)
	}
	b.WriteString("; ")
	if !e.Advice.IsZero() {
		b.WriteString(e.Advice.Worded(as))
	} else {
		b.WriteString("the fault is the plugin's: repair it, or ask its author")
	}
	return b.String()
}

// TooManyFiles says whether err is that of this program having as many files open as it may: no plugin
// is to blame then. Of what goes through other libraries the text is all there is.
func TooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || err != nil &&
		strings.Contains(err.Error(), syscall.EMFILE.Error())
}

// CloseFiles is what to do then.
var CloseFiles = setting.Textf("this program has as many files open as it may: raise the limit (ulimit -n); the " +
	"plugin is not at fault")
