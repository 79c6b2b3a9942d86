package file

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
	"weir/proxy/deferred"
	"weir/proxy/deferred/deferredtest"
)

// tracedPuts is how many entries trace puts, one after the other.
const tracedPuts = 20

// trace puts entries, and writes a line when each is durable.
func trace(path string) error {
	q, err := Open(time.Now(), Config{Path: path, Limits: deferredtest.LargeLimits})
	if err != nil {
		return err
	}
	for range tracedPuts {
		if s := deferredtest.Put(q, order("shop", make([]byte, 2000))); s.Outcome == deferred.Accepted {
			_, _ = os.Stdout.WriteString("accepted\n")
		}
	}
	return q.Close()
}

// syscall is the part of a line of strace that matters: the process, and what it began or what
// has ended.
var traced = regexp.MustCompile(`^(\d+) +(?:(pwrite64|fdatasync|write)\(|<\.\.\. (\w+) resumed>)(.*)$`)

// No put is told to be accepted before all that was written for it is on the disk, as the kernel
// sees it: pages, fdatasync, the page that makes them valid, fdatasync.
func TestTrace(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "trace")
	program := testkit.Command(t, nil, "trace", queuePath(t))
	strace := exec.Command("strace",
		append([]string{"-f", "-o", out, "-e", "trace=pwrite64,fdatasync,write", "-e", "signal=none"}, program.Args...)...)
	strace.Env = program.Env
	testkit.RequireExit(t, strace, 0)
	f := testkit.Must(os.Open(out))(t)
	defer func() { _ = f.Close() }()
	var d disk
	for lines := bufio.NewScanner(f); lines.Scan(); {
		d.line(t, lines.Text())
	}
	if d.accepted != tracedPuts {
		t.Errorf("%d of %d are accepted", d.accepted, tracedPuts)
	}
}

// A disk is what a trace tells about the file.
type disk struct {
	written  bool // since the last fdatasync began
	syncing  bool // something was written when the fdatasync under way began
	syncs    int  // that have ended and had something to do, since the last entry was accepted
	accepted int
}

func (d *disk) line(t *testing.T, text string) {
	m := traced.FindStringSubmatch(text)
	if m == nil {
		return
	}
	ended := strings.Contains(m[4], " = ") || m[3] != ""
	switch m[2] + m[3] {
	case "pwrite64":
		if m[2] != "" {
			d.written = true
		}
	case "fdatasync":
		if m[2] != "" {
			d.syncing, d.written = d.written, false
		}
		if ended && d.syncing && strings.HasSuffix(text, "= 0") {
			d.syncs++
			d.syncing = false
		}
	case "write":
		if m[2] == "" || !strings.Contains(m[4], `"accepted`) {
			return
		}
		if d.accepted++; d.written || d.syncing || d.syncs < 2 {
			t.Errorf("entry %d is accepted after %d fdatasyncs, with more written: %v", d.accepted, d.syncs, d.written ||
				d.syncing)
		}
		d.syncs = 0
	}
}
