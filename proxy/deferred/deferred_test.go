package deferred_test

import (
	"fmt"
	"testing"

	"weir/proxy/deferred"
)

// An ID has one text, and nothing else is one.
func TestID(t *testing.T) {
	t.Parallel()
	id := deferred.ID{0xff, 1, 2, 3, 15: 0x80}
	got, err := deferred.ParseID(id.String())
	if err != nil || got != id {
		t.Fatalf("%s is read as %v, %v", id, got, err)
	}
	for _, text := range []string{"", "zz", id.String() + "0", id.String()[:25] + "z", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"iiiiiiiiiiiiiiiiiiiiiiiiii", id.String()[:24] + "\r\n"} {
		if got, err := deferred.ParseID(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// No state is left but by a way that the table names, and what is final stays so until it
// is played again.
func TestStates(t *testing.T) {
	t.Parallel()
	ways := map[string]bool{}
	for from := range deferred.State(deferred.StateCount) {
		if s, err := deferred.ParseState(from.String()); err != nil || s != from {
			t.Errorf("%s is read as %s, %v", from, s, err)
		}
		for to := range deferred.State(deferred.StateCount) {
			if from.CanBecome(to) {
				ways[from.String()+" "+to.String()] = true
			}
		}
	}
	for _, way := range []string{
		"waiting delivering", "waiting cancelled",
		"delivering waiting", "delivering done", "delivering failed", "delivering expired", "delivering unknown",
		"failed waiting", "expired waiting", "unknown waiting",
	} {
		if !ways[way] {
			t.Errorf("there is no way %s", way)
		}
		delete(ways, way)
	}
	for way := range ways {
		t.Errorf("there is a way %s", way)
	}
	if _, err := deferred.ParseState("gone"); err == nil {
		t.Error("gone is a state")
	}
}

// An entry is written to bytes and read again, and what has changed meanwhile is noticed.
func Example() {
	data := deferred.AppendEntry(nil, &deferred.Entry{Rule: "orders", Body: []byte("two shirts")})
	e, err := deferred.ParseEntry(data)
	fmt.Println(e.Rule, e.State, string(e.Body), err)
	data[len(data)-20]++
	_, err = deferred.ParseEntry(data)
	fmt.Println(err)
	// Output:
	// orders waiting two shirts <nil>
	// the entry is damaged
}
