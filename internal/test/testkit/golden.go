package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what is expected, in testdata or in the documentation")

// Golden fails unless got equals the content of a file in testdata; -update writes the file.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s should be\n%s\nbut is\n%s", name, want, got)
	}
}

// RequireShown fails unless the part of a file of the documentation that a pattern finds is want; -update
// writes it. The pattern begins at the start of a line.
func RequireShown(t testing.TB, file, pattern, want string) {
	t.Helper()
	text := string(Must(os.ReadFile(file))(t))
	at := regexp.MustCompile(`(?m)^` + pattern).FindStringIndex(text)
	switch {
	case at == nil:
		t.Fatalf("%s has no %s", file, pattern)
	case text[at[0]:at[1]] == want:
	case *update:
		Must(0, os.WriteFile(file, []byte(text[:at[0]]+want+text[at[1]:]), 0o644))(t)
	default:
		t.Errorf("%s should show\n%s\nbut shows\n%s", file, want, text[at[0]:at[1]])
	}
}

// RunScripts runs testdata/*.txt. A script consists of blocks separated by empty lines; a block is
// commands, a line ----, and their effects; -update writes the effects. Lines with # are
// comments. player is called for each script; the function that it returns is called for each
// block and returns the effects of its commands.
func RunScripts(t *testing.T, player func() (play func(commands []string) (effects string, err error))) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playScript(t, path, player()) })
	}
}

func playScript(t *testing.T, path string, play func(commands []string) (string, error)) {
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(script)), "\n\n") {
		text, want, _ := strings.Cut(block, "\n----")
		var commands []string
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.HasPrefix(line, "#") {
				commands = append(commands, line)
			}
		}
		if len(commands) == 0 { // only a comment
			out = append(out, text)
			continue
		}
		got, err := play(commands)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", path, err, text)
		}
		if got, want = strings.TrimSpace(got), strings.TrimSpace(want); got != want && !*update {
			t.Errorf("%s: after\n%s\nthe effects are\n%s\nwant\n%s", path, text, got, want)
		}
		out = append(out, strings.TrimRight(text+"\n----\n"+got, "\n"))
	}
	if !*update {
		return
	}
	if err := os.WriteFile(path, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
