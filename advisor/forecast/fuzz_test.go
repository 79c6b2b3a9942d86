package forecast

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

// For any observations, forecasts are ascending, finite and not negative, and a restored
// forecaster makes the same.
func FuzzObserve(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x05\x05\x00\x00\x00\x00\x00\x00\x59\x40"))
	f.Add([]byte("00000000000\x01\xff\xff\xff\xff\xff\xff\xef\x7f000000000000"))
	for _, pattern := range []byte{0, 17, 130, 255} {
		row := make([]byte, 0, 600)
		for i := range 60 {
			row = append(row, pattern, byte(i))
			row = binary.LittleEndian.AppendUint64(row, math.Float64bits(math.Exp(float64(i%9)*5-20)))
		}
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		one := New(Settings{})
		at := epoch
		for i := 0; len(b) >= 10 && i < 300; i++ {
			interval := time.Duration(float64(time.Millisecond) * math.Exp(float64(b[0])/14))
			pause := time.Duration(0)
			if b[1] > 200 {
				pause = time.Duration(float64(time.Second) * math.Exp(float64(b[1]-200)/3))
			}
			at = at.Add(interval + pause)
			one.Observe(at, interval, math.Float64frombits(binary.LittleEndian.Uint64(b[2:])))
			b = b[10:]
			sound(t, one, "fuzzed")
		}
		state := one.Encode()
		two := testkit.Must(Restore(Settings{}, copied(t, one.hist), state))(t)
		if string(two.Encode()) != string(state) {
			t.Fatal("restored, it is not the same")
		}
	})
}
