package core

import (
	"testing"
	"time"
)

// A snapshot of one proxy, with two days of history.
func BenchmarkTake(b *testing.B) {
	c := New(Settings{})
	feed(b, c, monday, monday.Add(48*time.Hour), 30*time.Second)
	at := monday.Add(48 * time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(30 * time.Second)
		c.HandleSnapshot(snapAt(at))
	}
}

// Encoding the state after two days.
func BenchmarkParts(b *testing.B) {
	c := New(Settings{})
	feed(b, c, monday, monday.Add(48*time.Hour), 30*time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Parts(); err != nil {
			b.Fatal(err)
		}
	}
}
