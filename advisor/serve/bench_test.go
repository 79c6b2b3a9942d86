package serve

import (
	"testing"
	"time"
)

// One snapshot of one proxy, with two days of history.
func BenchmarkPost(b *testing.B) {
	c := newTestCore()
	at := monday
	post := func() {
		at = at.Add(30 * time.Second)
		c.take(snapAt(at))
	}
	for range 2 * 2880 {
		post()
	}
	c.refits.Wait()
	b.ReportAllocs()
	for b.Loop() {
		post()
	}
	c.refits.Wait()
}

// An image of what two days have taught.
func BenchmarkImage(b *testing.B) {
	c := newTestCore()
	for i := range 2 * 2880 {
		c.take(snapAt(monday.Add(time.Duration(i) * 30 * time.Second)))
	}
	c.refits.Wait()
	b.ReportAllocs()
	for b.Loop() {
		image, err := c.image()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(image.Size()))
	}
}
