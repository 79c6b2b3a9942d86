package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// matches are events of two hours on some evenings.
func matches(name string, days ...int) (list []Event) {
	for _, d := range days {
		start := epoch.Add(time.Duration(24*d+20) * time.Hour)
		list = append(list, Event{Name: name, Start: start, End: start.Add(2 * time.Hour), Ramp: 30 * time.Minute})
	}
	return list
}

func TestEventAt(t *testing.T) {
	l := newEvents(matches("match", 1))
	l.named[0].sum, l.named[0].all = 3*eventPrior, eventPrior // its effect is 1.5
	for _, c := range []struct {
		what  string
		hours float64
		want  float64
	}{
		{"before", 19, 0}, {"half up its ramp", 19.75, .75}, {"at its start", 20, 1.5}, {"within", 21, 1.5},
		{"half down its ramp", 22.25, .75}, {"after", 23, 0},
	} {
		if got := l.effect(seconds(epoch) + (24+c.hours)*3600); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", c.what, got, c.want)
		}
	}
}

// An event with a known name is forecast before it begins, one with another name is not.
// Effects are stored by name.
func TestEvents(t *testing.T) {
	const noise = .03 // standard deviation of the rate's logarithm
	r := rand.New(rand.NewPCG(21, 21))
	set := Settings{Events: append(matches("match", 3, 5, 8, 12), matches("parade", 13)...)}
	f := New(set)
	const slots = 96
	at := feed(f, epoch, 15*minute, 12*slots+78, func(i int) float64 { // until 19:30 on day 12
		y := 100 * math.Exp(.5*math.Sin(2*math.Pi*float64(i)/slots)+noise*r.NormFloat64())
		if hour := float64(i%slots) / 4; hour >= 20 && hour < 22 {
			switch i / slots {
			case 3, 5, 8, 12:
				y *= 3
			}
		}
		return y
	})
	k := &f.cal
	coming := func(k *calendar, day int) float64 { return k.events.effect(seconds(epoch) + (24*float64(day)+21)*3600) }
	if got := coming(k, 12); got < .6 || got > 1.2 {
		t.Errorf("a match that triples the rate adds %.2f to z, want nearly %.2f", got, math.Log(3))
	}
	if got := coming(k, 13); got != 0 {
		t.Errorf("an event of a name not seen adds %g", got)
	}
	quiet := testkit.Must(Restore(Settings{}, copied(t, f.hist), f.Encode()))(t)
	for _, one := range []*Forecaster{f, quiet} {
		one.Observe(at.Add(15*minute), 15*minute, 100*math.Exp(.5*math.Sin(2*math.Pi*79/slots)))
	}
	// more than by chance
	if with, without := median(f, time.Hour), median(quiet, time.Hour); with < math.Exp(5*noise)*without {
		t.Errorf("for an hour into the match %g is forecast, without being told of it %g", with, without)
	}
	other := testkit.Must(Restore(Settings{Events: append(matches("fair", 12), matches("match", 14)...)},
		copied(t, f.hist), f.Encode()))(t)
	if got, want := coming(&other.cal, 14), coming(k, 12); got != want || coming(&other.cal, 12) != 0 {
		t.Errorf("with other events: a match adds %g, want %g; a fair %g, want 0", got, want, coming(&other.cal, 12))
	}
}

func TestEventNames(t *testing.T) {
	var list []Event
	for i := range EventNamesMax + 1 {
		list = append(list, matches(fmt.Sprint("event ", i), i)...)
	}
	if l := newEvents(list); len(l.named) != EventNamesMax || len(l.spans) != EventNamesMax {
		t.Errorf("%d names and %d events, at most %d names are learnt", len(l.named), len(l.spans), EventNamesMax)
	}
}
