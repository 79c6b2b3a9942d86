package core

import (
	"math"
	"testing"
	"time"
)

func values(observed, limit float64) *[valuesN]float32 {
	var v [valuesN]float32
	for i := range v {
		v[i] = float32(math.NaN())
	}
	v[ObservedValue], v[LimitValue] = float32(observed), float32(limit)
	return &v
}

// Values are means, limits are the newest, and old marks are dropped.
func TestTrack(t *testing.T) {
	tr := newTrack()
	tr.add(monday.Add(30*time.Second), values(10, 100))
	tr.add(monday.Add(60*time.Second), values(20, 200))
	tr.add(monday.Add(90*time.Second), values(40, 300))
	points := tr.since(monday)
	if len(points) != 2 || points[0].Values[ObservedValue] != 15 || points[0].Values[LimitValue] != 200 ||
		points[1].Values[ObservedValue] != 40 {
		t.Errorf("the minutes are %+v", points)
	}
	if q := tr.quarters.since(0); len(q) != 1 || math.Abs(float64(q[0].Values[ObservedValue])-70.0/3) > 1e-5 ||
		q[0].Values[P95Value] == q[0].Values[P95Value] {
		t.Errorf("the quarters are %+v", q)
	}
	for i := range 30 * 60 {
		tr.add(monday.Add(time.Duration(i+2)*time.Minute), values(float64(i), 1))
	}
	if n := len(tr.minutes.points); n != 24*60 {
		t.Errorf("%d minutes are kept", n)
	}
	if points := tr.since(monday); len(points) < 120 || points[0].At != monday.Unix() {
		t.Errorf("since monday there are %d marks from %d", len(points), points[0].At)
	}
	if points := tr.since(monday.Add(29 * time.Hour)); len(points) != 61 {
		t.Errorf("there are %d marks of the last hour", len(points))
	}
	again, err := decodeTrack(tr.encode())
	if err != nil || string(again.encode()) != string(tr.encode()) {
		t.Errorf("a track is another one when it is read: %v", err)
	}
	again.add(monday.Add(31*time.Hour), values(1, 1))
	tr.add(monday.Add(31*time.Hour), values(1, 1))
	if string(again.encode()) != string(tr.encode()) {
		t.Error("a track that was read goes on otherwise")
	}
}

func FuzzDecodeTrack(f *testing.F) {
	tr := newTrack()
	tr.add(monday, values(1, 2))
	f.Add(tr.encode())
	f.Add([]byte{trackVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := decodeTrack(data)
		if err == nil && len(tr.encode()) != len(data) {
			t.Errorf("%d bytes became %d", len(data), len(tr.encode()))
		}
	})
}
