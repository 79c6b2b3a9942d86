package postgres

// Args are the arguments of a function, in PostgreSQL's binary format.
//
// Owned by its caller.
type Args struct {
	types  []uint32
	values [][]byte
}

func (a *Args) add(oid uint32, value []byte) *Args {
	a.types, a.values = append(a.types, oid), append(a.values, value)
	return a
}

// Int8 adds an int8.
func (a *Args) Int8(v int64) *Args { return a.add(oidInt8, appendInt8(nil, v)) }

// Int4 adds an int4.
func (a *Args) Int4(v int32) *Args { return a.add(oidInt4, appendInt4(nil, v)) }

// Int4s adds an int4[].
func (a *Args) Int4s(values []int32) *Args {
	return a.add(oidInt4Array, arrayOf(oidInt4, 4*len(values), values, appendInt4))
}

// Int8s adds an int8[].
func (a *Args) Int8s(values []int64) *Args {
	return a.add(oidInt8Array, arrayOf(oidInt8, 8*len(values), values, appendInt8))
}

// Bool adds a bool.
func (a *Args) Bool(v bool) *Args {
	value := []byte{0}
	if v {
		value[0] = 1
	}
	return a.add(oidBool, value)
}

// Text adds a text.
func (a *Args) Text(v string) *Args { return a.add(oidText, append([]byte{}, v...)) }

// Texts adds a text[].
func (a *Args) Texts(values []string) *Args {
	return a.add(oidTextArray, arrayOf(oidText, 0, values, appendText))
}

// Names adds a bytea[].
func (a *Args) Names(values []string) *Args {
	return a.add(oidByteaArray, arrayOf(oidBytea, 0, values, appendText))
}

// Bytes adds a bytea.
func (a *Args) Bytes(v []byte) *Args { return a.add(oidBytea, append([]byte{}, v...)) }

// BytesList adds a bytea[], in which nil is null.
func (a *Args) BytesList(values [][]byte) *Args {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	return a.add(oidByteaArray, arrayOf(oidBytea, size, values, func(dst, v []byte) []byte {
		if v == nil {
			return nil
		}
		return append(dst, v...)
	}))
}

// A UUID is 16 bytes, sent as a uuid.
type UUID = [16]byte

// UUID adds a uuid.
func (a *Args) UUID(v UUID) *Args { return a.add(oidUUID, v[:]) }

// UUIDs adds a uuid[], in which the zero UUID is null.
func (a *Args) UUIDs(values []UUID) *Args {
	return a.add(oidUUIDArray, arrayOf(oidUUID, 16*len(values), values, func(dst []byte, v UUID) []byte {
		if v == (UUID{}) {
			return nil
		}
		return append(dst, v[:]...)
	}))
}

// Fields reads the fields of a row or of a composite value one after another. If a field does not
// have the expected form, Err is set, and everything read from then on is zero.
//
// Owned by its reader.
type Fields struct {
	left [][]byte
	Err  error
}

// NewFields returns the fields of a row.
func NewFields(row [][]byte) *Fields { return &Fields{left: row} }

// Bytes reads a value in binary form; a null is empty.
func (f *Fields) Bytes() []byte {
	if f.Err != nil || len(f.left) == 0 {
		f.Err = errForm
		return nil
	}
	value := f.left[0]
	f.left = f.left[1:]
	return value
}

// number reads an integer of that many bytes; a null is 0.
func (f *Fields) number(size int) (v uint64) {
	b := f.Bytes()
	if len(b) > 0 && len(b) != size {
		f.Err = errForm
		return 0
	}
	for _, part := range b {
		v = v<<8 | uint64(part)
	}
	return v
}

// Int8 reads an int8; a null is 0.
func (f *Fields) Int8() int64 { return int64(f.number(8)) }

// Int4 reads an int4; a null is 0.
func (f *Fields) Int4() int32 { return int32(f.number(4)) }

// Int8s reads an int8[]; a null is empty.
func (f *Fields) Int8s() []int64 { return elements(f, parseInt8) }

// Bool reads a bool; a null is false.
func (f *Fields) Bool() bool { b := f.Bytes(); return len(b) == 1 && b[0] == 1 }

// UUID reads a uuid; a null is zero.
func (f *Fields) UUID() (p UUID) {
	if b := f.Bytes(); len(b) > 0 && copy(p[:], b) != len(p) {
		f.Err = errForm
	}
	return p
}

// Records reads an array of composite values; a null has none.
func (f *Fields) Records() []*Fields {
	return elements(f, func(b []byte) (*Fields, error) {
		fields, err := parseRecord(b)
		return NewFields(fields), err
	})
}
