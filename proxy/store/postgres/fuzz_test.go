package postgres

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weir/proxy/limit"
	"weir/proxy/limit/limittest"
	"weir/proxy/store"
)

func int8Value(v int64) []byte { return appendInt8(nil, v) }

func int4Value(v int32) []byte { return appendInt4(nil, v) }

func int8Array(values []int64) []byte { return new(Args).Int8s(values).values[0] }

// columns cuts bytes into values, each behind its length in two bytes; 0xffff is null.
func columns(data []byte) (row [][]byte) {
	for len(data) >= 2 {
		n := int(binary.BigEndian.Uint16(data))
		data = data[2:]
		if n == 0xffff {
			row = append(row, nil)
			continue
		}
		n = min(n, len(data))
		row, data = append(row, data[:n:n]), data[n:]
	}
	return row
}

func joined(row ...[]byte) (data []byte) {
	for _, value := range row {
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(value))), value...)
	}
	return data
}

// record is a composite value of those fields.
func record(fields [][]byte) []byte {
	data := binary.BigEndian.AppendUint32(nil, uint32(len(fields)))
	for _, value := range fields {
		data = append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, 0), uint32(len(value))), value...)
	}
	return data
}

// Whatever a server sends, what is made of it is an error, or decisions within what was
// asked.
func FuzzAnswers(f *testing.F) {
	groups := func() []*store.Group {
		one := limittest.Must(limit.Config{Algorithm: limit.GCRA, Limit: 1, Window: 2, Burst: 1})
		log := limittest.Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 3, Window: 1000})
		return []*store.Group{
			{N: 2, Counters: []store.Counter{{Rule: "a", Key: []byte("k"), Limit: one, Cost: 1}}},
			{N: 3, Counters: []store.Counter{{Rule: "b", Key: []byte("k"), Limit: log, Cost: 1},
				{Rule: "c", Key: []byte("k"), Limit: fixed(9), Cost: 2}}},
		}
	}
	window := int64(1_000_000_000)
	f.Add(joined(int8Value(limittest.Epoch), int4Value(0), int4Value(0), int8Array([]int64{1, 3}),
		int8Array(make([]int64, 3*stateNumbers)), int8Array(nil)))
	f.Add(joined(int8Value(limittest.Epoch), int4Value(2), int4Value(1), int8Array([]int64{-1, 0}),
		int8Array(append(append(make([]int64, stateNumbers), int64(limit.SlidingLog)<<56|window, limittest.Epoch, 2, 2, 0,
			0), make([]int64, stateNumbers)...)),
		int8Array([]int64{2, limittest.Epoch - 5, 0, 2, limittest.Epoch - 1, 1})))
	both := int8Array([]int64{1, 3})
	f.Add(joined(int8Value(limittest.Epoch), int4Value(0), int4Value(0), both,
		int8Array(make([]int64, 3*stateNumbers)), int8Array(nil), int8Array(nil), int8Array(nil), int8Array(nil)))
	f.Add(joined(int8Value(limittest.Epoch), int4Value(0), int4Value(0), int8Array([]int64{3}),
		int8Array(make([]int64, 2*stateNumbers)), int8Array(nil),
		int8Array([]int64{-1}), int8Array([]int64{limittest.Epoch}), int8Array([]int64{5})))
	f.Add(joined(int8Value(1), int8Value(2), int8Value(3), int4Value(4), int8Value(5), []byte("public.orders")))
	f.Fuzz(func(t *testing.T, data []byte) {
		row := columns(data)
		if s, err := parseSight(row); err == nil && s == nil {
			t.Error("neither a sight nor an error")
		}
		if fields, err := parseRecord(record(row)); err != nil || !slices.EqualFunc(fields, row, bytes.Equal) {
			t.Errorf("the fields of %x are %x, %v", record(row), fields, err)
		}
		_, _ = parseRecord(data) // whatever it is
		r, err := parseTaken(&pgconn.Result{Rows: [][][]byte{{record(row)}}})
		if err != nil {
			return
		}
		for _, call := range takes("", &store.Batch{Groups: groups()}) {
			if call.deliver(&r) != nil {
				continue
			}
			for _, g := range slices.Concat(call.singles, call.groups) {
				if g.Granted < 0 || g.Granted > g.N {
					t.Errorf("%d granted of %d", g.Granted, g.N)
				}
				for i := range g.Counters { // what was told can be decided from
					c := &g.Counters[i]
					c.Limit.Decide(g.At[i], &g.Before[i], c.Charge(int64(g.Granted)))
				}
			}
		}
	})
}

// Whatever a server sends in an array of composite values, reading it ends, and what has not its
// form is an error.
func FuzzRecords(f *testing.F) {
	one := record([][]byte{int8Value(7), []byte("x")})
	f.Add(append(binary.BigEndian.AppendUint32(appendArray(nil, 2249, 1), uint32(len(one))), one...))
	f.Add(appendArray(nil, 2249, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		fields := NewFields([][]byte{data})
		records := fields.Records()
		if fields.Err != nil && records != nil {
			t.Errorf("%d records and %v", len(records), fields.Err)
		}
		for _, r := range records {
			for r.Err == nil {
				r.Bytes()
			}
		}
	})
}
