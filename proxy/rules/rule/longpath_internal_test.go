package rule

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
	"weir/proxy/rules/keys"
)

// A long path is not tried segment by segment for each rule: that would hold up a
// loop for seconds.
func TestLongPathAndManyPatterns(t *testing.T) {
	runtime.LockOSThread() // its processor time is what counts
	defer runtime.UnlockOSThread()
	for _, match := range []string{"path: /**/x%d", "path: /a/**/x%d", `host: "*.h%d.example", path: /**/x/**`} {
		var file strings.Builder
		file.WriteString("rules:\n")
		for i := range 3000 {
			fmt.Fprintf(&file, "  - {id: r%d, match: {"+match+"}, limit: {algorithm: fixed, limit: 1, window: 1}}\n", i, i)
		}
		set := testkit.Must(Read([]byte(file.String()), Options{}))(t)
		h := &keys.Request{MethodText: []byte("GET"), Host: []byte("localhost"),
			Path: []byte("/a%2F;" + strings.Repeat("/a", 7000))}
		var x Scratch
		began := cpu(t)
		if matched := set.Match(h, netip.Addr{}, &x); len(matched) != 0 {
			t.Errorf("%s: %d hits", match, len(matched))
		}
		took := cpu(t) - began
		t.Logf("%s: %v", match, took)
		if took > 300*time.Millisecond { // it takes about 1 ms, and seconds if each rule tries every segment
			t.Errorf("%s: %v", match, took)
		}
	}
}

// cpu is the processor time of this thread. Unlike the time of a clock it does not pass while other
// processes have the processor.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
