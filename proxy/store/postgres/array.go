package postgres

import (
	"encoding/binary"
	"errors"
)

// Object identifiers of types, which are the same in every database.
const (
	oidBytea      = 17
	oidInt8       = 20
	oidInt4       = 23
	oidBool       = 16
	oidText       = 25
	oidInt4Array  = 1007
	oidTextArray  = 1009
	oidByteaArray = 1001
	oidInt8Array  = 1016
	oidUUID       = 2950
	oidUUIDArray  = 2951
)

const arrayHead = 20 // bytes: dimensions, whether there are nulls, type; length, lower bound

// errForm is the error of an answer that does not have the form of its function's result.
var errForm = errors.New("the answer has an unexpected form")

// arrayOf returns values as an array in PostgreSQL's binary format. add appends one value, or
// returns nil for a null; size is about the length of all, in bytes.
func arrayOf[T any](oid, size int, values []T, add func(dst []byte, v T) []byte) []byte {
	dst := appendArray(make([]byte, 0, arrayHead+4*len(values)+size), oid, len(values))
	for _, v := range values {
		at := len(dst)
		dst = append(dst, 0xff, 0xff, 0xff, 0xff) // the length of a null
		if more := add(dst, v); more != nil {
			dst = more
			binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		}
	}
	return dst
}

// appendArray appends the head of an array of n elements.
func appendArray(dst []byte, oid, n int) []byte {
	dimensions := min(n, 1)
	dst = binary.BigEndian.AppendUint32(dst, uint32(dimensions))
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(oid))
	if n > 0 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		dst = binary.BigEndian.AppendUint32(dst, 1)
	}
	return dst
}

func appendInt8(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendInt4(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

func appendText(dst []byte, v string) []byte { return append(dst, v...) }

// parseRecord returns the fields of a composite value; a null is empty.
func parseRecord(b []byte) (fields [][]byte, err error) {
	if len(b) < 4 {
		return nil, errForm
	}
	n := binary.BigEndian.Uint32(b)
	for b = b[4:]; len(b) >= 8; {
		size := int(int32(binary.BigEndian.Uint32(b[4:]))) // the four bytes before it are the type
		b = b[8:]
		if size = max(0, size); size > len(b) {
			return nil, errForm
		}
		fields, b = append(fields, b[:size]), b[size:]
	}
	if len(b) > 0 || len(fields) != int(n) {
		return nil, errForm
	}
	return fields, nil
}

// elements reads an array without nulls of at most one dimension; a null has none. parse converts
// one element.
func elements[T any](f *Fields, parse func(b []byte) (T, error)) []T {
	b := f.Bytes()
	if len(b) == 0 || len(b) == 12 && binary.BigEndian.Uint32(b) == 0 {
		return nil
	}
	if len(b) < arrayHead || binary.BigEndian.Uint32(b) != 1 {
		f.Err = errForm
		return nil
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	b = b[arrayHead:]
	values := make([]T, 0, min(n, len(b)/4))
	for len(b) >= 4 {
		size := int(binary.BigEndian.Uint32(b))
		if size > len(b)-4 {
			break
		}
		v, err := parse(b[4 : 4+size])
		if err != nil {
			break
		}
		values, b = append(values, v), b[4+size:]
	}
	if len(b) > 0 || len(values) != n {
		f.Err = errForm
		return nil
	}
	return values
}

func parseInt8(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, errForm
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}
