package strictjson

import "errors"

// Raw is a JSON value that is kept as it was written, to be decoded later when
// it is known what it must be, like the parameters that depend on a type named
// beside them. It is checked for its syntax, not for its names. At gives the
// errors of the later decoding their full path.
type Raw []byte

// UnmarshalJSON keeps a copy of data.
func (r *Raw) UnmarshalJSON(data []byte) error {
	if r == nil {
		return errors.New("keep a raw value: nil pointer")
	}
	*r = append((*r)[:0], data...)
	return nil
}

// MarshalJSON writes the value as it was read; an empty one is null.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}
