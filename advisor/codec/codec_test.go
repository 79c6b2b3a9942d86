package codec_test

import (
	"errors"
	"fmt"
	"testing"

	"weir/advisor/codec"
)

// One walk encodes and decodes a point.
type point struct {
	x, y float64
	name string
}

func (p *point) walk(c *codec.Codec) {
	c.Float(&p.x, &p.y)
	c.Text(&p.name, 5)
}

func Example() {
	a := point{1, 2.5, "here"}
	b := codec.Marshal("point", 1, a.walk)
	var back point
	fmt.Println(codec.Unmarshal(b, "point", 1, back.walk), back)
	fmt.Println(codec.Unmarshal(b, "point", 2, back.walk))
	// Output:
	// <nil> {1 2.5 here}
	// version 1, must be 2: not a state of this version
}

// Any change of the bytes is an error.
func TestRefusals(t *testing.T) {
	p := point{1, 2, "here"}
	good := codec.Marshal("point", 1, p.walk)
	bad := map[string][]byte{"longer": codec.Marshal("point", 1, func(c *codec.Codec) { p.walk(c); p.walk(c) }),
		"shorter": codec.Marshal("point", 1, func(c *codec.Codec) { c.Float(&p.x) }),
		"a long name": codec.Marshal("point", 1,
			func(c *codec.Codec) { c.Float(&p.x, &p.y); p.name = "farther"; c.Text(&p.name, 9) })}
	for n := range good {
		bad[fmt.Sprintf("%d bytes", n)] = good[:n]
		other := append([]byte(nil), good...)
		other[n]++
		bad[fmt.Sprintf("byte %d", n)] = other
	}
	for name, b := range bad {
		if err := codec.Unmarshal(b, "point", 1, new(point).walk); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
