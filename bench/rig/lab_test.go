package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/bench/report"
	"weir/internal/service"
)

func TestChoose(t *testing.T) {
	all := []Part{{Name: "one"}, {Name: "two"}, {Name: "three"}}
	for args, want := range map[string]string{"": "one two three", "three one": "one three", "one four": ""} {
		chosen, err := Choose("counting", all, strings.Fields(args))
		var names []string
		for _, p := range chosen {
			names = append(names, p.Name)
		}
		exit, wrong := errors.AsType[*service.ExitError](err)
		if strings.Join(names, " ") != want || wrong != (want == "") || wrong && (exit.Status != 2 || !strings.Contains(exit.Error(), `counting wants any of one, two, three, not "four"`)) {
			t.Errorf("%q: %v, %v", args, names, err)
		}
	}
}

// What a part has started ends with it, the last first, before the next part begins.
func TestPlay(t *testing.T) {
	var out strings.Builder
	l := &Lab{Out: &out}
	part := func(name string, err error) Part {
		return Part{name, func(context.Context) error {
			for i := range 2 {
				l.Keep(func() { fmt.Fprintf(&out, "%s ends %d\n", name, i) })
			}
			l.AtMost(name, 2, 1)
			return err
		}}
	}
	if err := l.Play(t.Context(), []Part{part("a", nil), part("b", nil)}, "well"); !errors.Is(err, report.ErrMissed) {
		t.Errorf("ends with %v", err)
	}
	if want := "a ends 1\na ends 0\nb ends 1\nb ends 0\n\n|"; !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), "a: 2, expected") {
		t.Errorf("%s", out.String())
	}
	if _, err := os.Stat(l.Dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
	broken := errors.New("broken")
	if err := l.Play(t.Context(), []Part{part("a", broken), part("b", nil)}, ""); !errors.Is(err, broken) || err.Error() != "a: broken" {
		t.Errorf("ends with %v", err)
	}
}
