package season

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func Example() {
	var rows []Row
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for range 10 * 288 {
		at = at.Add(5 * time.Minute)
		rate := 20.0
		if h := at.Hour(); h >= 8 && h < 18 {
			rate = 100
		}
		rows = append(rows, Row{At: at, Rate: rate, Weight: 1})
	}
	m, err := Fit(rows, nil, Settings{})
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Rate(at.Add(4*time.Hour)) < 30, m.Rate(at.Add(13*time.Hour)) > 80)
	// Output: true true
}

// full returns a model in which every part takes part.
func full(t testing.TB) (*Model, Settings) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := begin.Add(20 * oneDay)
	s := Settings{berlin, []Event{{"sale", at, at.Add(oneDay), time.Hour}, {"match", at.Add(3 * oneDay), at.Add(4 * oneDay), 0}}}
	return mustFit(t, rowsOf(2*366*4, 6*time.Hour, noisy(busy, .1)), []time.Time{at}, s), s
}

func TestPartsSumToTheValue(t *testing.T) {
	m, _ := full(t)
	for i := range 5000 {
		at := begin.Add(time.Duration(i) * 4 * time.Hour)
		if a, b := m.Parts(at).Sum(), m.At(at); math.Abs(a-b) > 1e-12*(1+math.Abs(b)) {
			t.Fatalf("%s: the parts sum to %g, the value is %g", at, a, b)
		}
	}
	at := begin.Add(100 * oneDay)
	if a, b := m.AtSlot(at, m.Step()), m.At(at); a != b {
		t.Errorf("a slot as long as the rows' is %g by AtSlot and %g by At", a, b)
	}
	if a, b := m.AtSlot(at.Add(-179*time.Minute), 2*time.Minute), m.At(at); math.Abs(a-b) > 1e-9 {
		t.Errorf("slots with the same middle are %g and %g", a, b)
	}
}

func TestRestored(t *testing.T) {
	m, s := full(t)
	b, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Restore(b, s)
	if err != nil {
		t.Fatal(err)
	}
	var u Model
	if err := u.setSettings(s); err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		at := begin.Add(time.Duration(i) * 7 * time.Hour)
		if m.At(at) != r.At(at) || m.At(at) != u.At(at) || m.Rate(at) != r.Rate(at) {
			t.Fatalf("%s: %g restored as %g and %g", at, m.At(at), r.At(at), u.At(at))
		}
	}
	if r.Scale() != m.Scale() || r.Step() != m.Step() || r.Span() != m.Span() || !r.Newest().Equal(m.Newest()) {
		t.Error("what is told about the rows was lost")
	}
	renamed, err := Restore(b, Settings{s.Location, []Event{{"match", s.Events[1].Start, s.Events[1].End, 0}, {"new", s.Events[0].Start, s.Events[0].End, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	in := func(e Event) time.Time { return e.Start.Add(e.End.Sub(e.Start) / 2) }
	if a, b := renamed.Parts(in(s.Events[1])).Events, m.Parts(in(s.Events[1])).Events; a != b || a == 0 {
		t.Errorf("what was learned of an event by name is %g, must be %g", a, b)
	}
	if a := renamed.Parts(in(s.Events[0])).Events; a != 0 {
		t.Errorf("an event of a new name does %g, must do nothing", a)
	}
}

func TestNotRestored(t *testing.T) {
	m, s := full(t)
	b, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(b, Settings{}); err == nil || !strings.Contains(err.Error(), `"Europe/Berlin", settings say "UTC"`) {
		t.Errorf("another location: error %v must name both", err)
	}
	if _, err := Restore(append([]byte{99}, b[1:]...), s); err == nil || !strings.Contains(err.Error(), "version 99, must be 1") {
		t.Errorf("another version: error %v must name both", err)
	}
	for n := range len(b) {
		if _, err := Restore(b[:n], s); err == nil {
			t.Fatalf("cut to %d of %d bytes it must be refused", n, len(b))
		}
	}
	if _, err := Restore(append(b[:len(b):len(b)], 0), s); err == nil {
		t.Error("with a byte too many it must be refused")
	}
}

// FuzzRestore: whatever the bytes, an error or a model that can be asked and
// restored again.
func FuzzRestore(f *testing.F) {
	for _, n := range []int{1, 100, 3000} {
		m := mustFit(f, rowsOf(n, 5*time.Minute, busy), nil, Settings{})
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Restore(b, Settings{})
		if err != nil {
			return
		}
		if r := m.Rate(begin); r < 0 {
			t.Errorf("rate %g", r)
		}
		again, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(again, Settings{}); err != nil {
			t.Errorf("restored, but not twice: %v", err)
		}
	})
}
