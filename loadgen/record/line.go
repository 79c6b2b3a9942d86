package record

import (
	"strconv"
	"time"
)

// LineHead is the first line of a file of outcomes: the names of its fields. Instants are
// in microseconds after the start of the schedule. The start is empty for a request that
// was never sent, the status is 0 for one without an answer.
const LineHead = "due_us,start_us,done_us,status,reason\n"

// AppendLine appends the outcome as a line of such a file; start is that of the
// schedule.
func (o *Outcome) AppendLine(dst []byte, start time.Time) []byte {
	dst = append(strconv.AppendInt(dst, o.Due.Sub(start).Microseconds(), 10), ',')
	if !o.Start.IsZero() {
		dst = strconv.AppendInt(dst, o.Start.Sub(start).Microseconds(), 10)
	}
	dst = append(strconv.AppendInt(append(dst, ','), o.Done.Sub(start).Microseconds(), 10), ',')
	dst = append(strconv.AppendInt(dst, int64(o.Status), 10), ',')
	return append(append(dst, o.Cause().String()...), '\n')
}
