package http1test

import (
	"bytes"
	"slices"
	"testing"
)

func TestPieces(t *testing.T) {
	in := bytes.Repeat([]byte("0123456789"), 500)
	for seed := range uint64(20) {
		pieces := RandomPieces(in, seed)
		if !bytes.Equal(slices.Concat(pieces...), in) {
			t.Fatalf("seed %d: the pieces are not the whole", seed)
		}
		again := RandomPieces(in, seed)
		if !slices.EqualFunc(pieces, again, bytes.Equal) {
			t.Fatalf("seed %d: not the same twice", seed)
		}
	}
	for _, pieces := range [][][]byte{Whole(in), ByteByByte(in), SplitAt(in, 7)} {
		if !bytes.Equal(slices.Concat(pieces...), in) {
			t.Error("the pieces are not the whole")
		}
	}
}

// TestJudgesComplain gives each case a record that is wrong for it: a verdict
// that is always met would prove nothing.
func TestJudgesComplain(t *testing.T) {
	requests := Requests(t)
	for i := range requests {
		c := &requests[i]
		if err := c.Judge(Record{Idle: c.Rule != "INCOMPLETE:idle"}); err == nil {
			t.Errorf("%s: nothing at all was read, and that is right", c.ID)
		}
		many := slices.Repeat([]Message{{Complete: true}}, c.MaxForwarded+1)
		if err := c.Judge(Record{Messages: many}); err == nil {
			t.Errorf("%s: one request too many is right", c.ID)
		}
	}
	responses := Responses(t)
	for i := range responses {
		c := &responses[i]
		if err := c.Judge(Record{}); err == nil {
			t.Errorf("%s: nothing at all was read, and that is right", c.ID)
		}
		if c.Expect == "forward" {
			got := c.Conversation().Read(nil)
			if err := c.Judge(got); err == nil {
				t.Errorf("%s: an empty connection is right", c.ID)
			}
		}
	}
}
