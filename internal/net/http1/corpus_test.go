package http1_test

import (
	"testing"

	"weir/internal/net/http1"
	"weir/internal/net/http1/http1test"
)

// TestRequestCorpus feeds each request case in every way; the reader and Check
// together must reach the verdict.
func TestRequestCorpus(t *testing.T) {
	cases := http1test.Requests(t)
	for i := range cases {
		c := &cases[i]
		in, err := c.Bytes()
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		talk := http1test.Conversation{Refuse: (*http1.Head).Check}
		got, err := talk.ReadAllWays(in)
		if err != nil {
			t.Errorf("%s: %.500q\n%v", c.ID, in, err)
			continue
		}
		if err := c.Judge(got); err != nil {
			t.Errorf("%s: %.500q\nwant %s %s %v\ngot %s\n%v", c.ID, in, c.Expect, c.Recommended, c.StatusOK, got, err)
		}
	}
}

// TestResponseCorpus does the same with what upstreams send.
func TestResponseCorpus(t *testing.T) {
	cases := http1test.Responses(t)
	for i := range cases {
		c := &cases[i]
		in, err := c.Bytes()
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		got, err := c.Conversation().ReadAllWays(in)
		if err != nil {
			t.Errorf("%s: %.500q\n%v", c.ID, in, err)
			continue
		}
		if err := c.Judge(got); err != nil {
			t.Errorf("%s: %.500q\nwant %s\ngot %s\n%v", c.ID, in, c.Expect, got, err)
		}
	}
}
