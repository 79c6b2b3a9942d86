// Package charttest loads pages in a headless Chromium.
package charttest

import (
	"context"
	"fmt"
	"html"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/process"
	"weir/internal/test/testkit"
)

// patience bounds the time that a browser takes for a page on a busy machine.
const patience = 5 * time.Minute

// DOM opens a page, lets budget of virtual time pass (timers run fast, requests are waited
// for) and returns the content of the page then. The test fails if a script fails or writes
// to the console. Without Chromium the test is skipped, or fails if CI is true.
func DOM(t *testing.T, address string, budget time.Duration) string {
	t.Helper()
	dom, said := Visit(t, address, budget)
	for line := range strings.Lines(said) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("%s writes to the console: %s", address, line)
		}
	}
	return dom
}

// Script returns a script for the end of a page, which uses it as a person does. It may await
// until(condition).
func Script(steps string) string {
	return `<script>
const until = is => new Promise(done => { const t = setInterval(() => is() && (clearInterval(t), done()), 20); });
(async () => {` + steps + `})();
</script>`
}

// Visit does what DOM does, and returns what the browser logs, including what is written to the console.
func Visit(t *testing.T, address string, budget time.Duration) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, find(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--ignore-certificate-errors", "--user-data-dir="+profile(t), "--enable-logging=stderr",
		"--virtual-time-budget="+strconv.FormatInt(budget.Milliseconds(), 10), "--dump-dom", address)
	// Its child processes may outlive it, so the whole process group is killed. Output goes
	// to files, because a pipe would stay open until the last of them ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	out, words := output(t), output(t)
	cmd.Stdout, cmd.Stderr = out, words
	err := cmd.Run()
	if cmd.Process != nil {
		_ = end()
	}
	dom, log = content(t, out), content(t, words)
	if err != nil {
		t.Fatalf("chromium shows %s: %v\n%s", address, err, log)
	}
	return dom, log
}

// output returns a file for the output of a process.
func output(t *testing.T) *os.File {
	t.Helper()
	f := testkit.Must(os.CreateTemp(t.TempDir(), ""))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// content returns the content of such a file.
func content(t *testing.T, f *os.File) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(f.Name()))(t))
}

// profile returns a folder for the browser. t.TempDir would fail the test if a child process
// of the browser still writes there while it is removed.
func profile(t *testing.T) string {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "weir-browser-"))(t)
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
		}
	})
	return dir
}

// File writes a page to a file and returns its address.
func File(t *testing.T, page []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	testkit.WriteFile(t, name, string(page))
	return (&url.URL{Scheme: "file", Path: name}).String()
}

// find returns the path of the browser.
func find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := process.Find(name); err == nil {
			return path
		}
	}
	return testkit.FindOrSkip(t, "chromium")
}

// Overlaps shows SVGs in a browser with a font of its choice, as one without the fonts of the charts
// would, and lists the texts that overlap another one or a swatch, or leave their SVG.
func Overlaps(t *testing.T, family string, svgs map[string][]byte) []string {
	t.Helper()
	var page strings.Builder
	page.WriteString("<!DOCTYPE html><meta charset=\"utf-8\"><style>svg{width:760px}svg.chart{font-family:" + family +
		" !important}</style><body>\n")
	for _, name := range slices.Sorted(maps.Keys(svgs)) {
		fmt.Fprintf(&page, "<div title=\"%s\">%s</div>\n", html.EscapeString(name), svgs[name])
	}
	page.WriteString(overlapsScript)
	dom := DOM(t, File(t, []byte(page.String())), time.Second)
	_, found, ok := strings.Cut(dom, `<pre id="found">`)
	if found, _, _ = strings.Cut(found, "</pre>"); !ok {
		t.Fatalf("the browser has not measured: %.2000s", dom)
	}
	return strings.FieldsFunc(html.UnescapeString(found), func(r rune) bool { return r == '\n' })
}

// overlapsScript measures all texts. Half a pixel is tolerated.
const overlapsScript = `<script>
const found = [];
for (const div of document.querySelectorAll("div")) {
	const whole = div.querySelector("svg").getBoundingClientRect();
	const texts = [...div.querySelectorAll("text")].map(e => ({said: e.textContent, box: e.getBoundingClientRect()}));
	const swatches = [...div.querySelectorAll("path")].map(e => e.getBoundingClientRect()).filter(b => b.width > 14 && b.width < 19 && b.height < 10);
	texts.forEach((a, i) => {
		if (swatches.some(b => a.box.left < b.right - .5 && b.left < a.box.right - .5 && a.box.top < b.top && b.bottom < a.box.bottom))
			found.push(div.title + ": " + a.said + " runs into a swatch of the legend");
		if (a.box.left < whole.left - .5 || a.box.right > whole.right + .5) found.push(div.title + ": " + a.said + " leaves the chart");
		for (const b of texts.slice(i + 1)) {
			const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
			const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
			if (wide > .5 && high > 4) found.push(div.title + ": " + a.said + " overlaps " + b.said);
		}
	});
}
const pre = document.createElement("pre");
pre.id = "found";
pre.textContent = found.join("\n");
document.body.append(pre);
</script>
`
