package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
)

// version is the format of a checkpoint. The encoding of its parts is up to their owner.
const version = 1

const (
	checkpointWord = "weir-advisor-state"
	headBytesMax   = 128      // of a checkpoint's first line
	checkpointMax  = 64 << 20 // largest checkpoint in bytes; beyond: not ours
	partsMax       = 64
)

// A Checkpoint is everything known after record Sequence, as named parts.
type Checkpoint struct {
	Sequence uint64
	Parts    map[string][]byte
}

// Size returns the approximate size of the checkpoint in a file.
func (c *Checkpoint) Size() int {
	n := headBytesMax
	for name, data := range c.Parts {
		n += len(name) + len(data) + 6
	}
	return n
}

// encode encodes the checkpoint: a readable line, then the parts.
func (c *Checkpoint) encode() ([]byte, error) {
	if len(c.Parts) > partsMax || c.Size() > checkpointMax {
		return nil, fmt.Errorf("the state has %d parts and %d bytes, at most %d and %d can be kept", len(c.Parts),
			c.Size(), partsMax, checkpointMax)
	}
	body := make([]byte, 0, c.Size())
	for _, name := range slices.Sorted(maps.Keys(c.Parts)) {
		if len(name) > math.MaxUint8 {
			return nil, fmt.Errorf("the part %q has a name of more than %d bytes", name, math.MaxUint8)
		}
		body = append(body, byte(len(name)))
		body = append(body, name...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(c.Parts[name])))
		body = append(body, c.Parts[name]...)
	}
	head := fmt.Sprintf("%s %d %d %d %08x\n", checkpointWord, version, c.Sequence, len(body), checksum(c.Sequence, body))
	return append([]byte(head), body...), nil
}

// decode is the inverse of encode. The error says what is wrong with data.
func decode(data []byte) (*Checkpoint, error) {
	line, body, found := bytes.Cut(data, []byte{'\n'})
	if !found || len(line) > headBytesMax || !bytes.HasPrefix(line, []byte(checkpointWord+" ")) {
		return nil, errors.New("is not a state of the advisor")
	}
	var form int
	var sequence uint64
	var length int
	var sum uint32
	if n, _ := fmt.Sscanf(string(line), checkpointWord+" %d %d %d %x", &form, &sequence, &length, &sum); n > 0 &&
		form != version {
		return nil, fmt.Errorf("has version %d, this program reads version %d", form, version)
	} else if n != 4 {
		return nil, errors.New("has a damaged first line")
	}
	switch {
	case len(body) < length:
		return nil, fmt.Errorf("is cut off: %d of %d bytes are present", len(body), length)
	case len(body) > length:
		return nil, fmt.Errorf("has %d bytes too many", len(body)-length)
	case checksum(sequence, body) != sum:
		return nil, errors.New("is damaged: the checksum does not match")
	}
	parts, err := decodeParts(body)
	return &Checkpoint{Sequence: sequence, Parts: parts}, err
}

var errParts = errors.New("is damaged: its parts are inconsistent")

// decodeParts returns parts that borrow from body.
func decodeParts(body []byte) (map[string][]byte, error) {
	parts := make(map[string][]byte)
	for len(body) > 0 {
		name, rest, ok := take(body[1:], int(body[0]))
		if !ok || len(rest) < 4 || len(parts) == partsMax {
			return nil, errParts
		}
		size := binary.LittleEndian.Uint32(rest)
		data, rest, ok := take(rest[4:], int(size))
		if !ok {
			return nil, errParts
		}
		parts[string(name)] = data
		body = rest
	}
	return parts, nil
}

// take splits b after n bytes.
func take(b []byte, n int) (first, rest []byte, ok bool) {
	if n < 0 || n > len(b) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// checksum returns the checksum of data and its sequence number.
func checksum(sequence uint64, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // computed once by the library
	number := binary.LittleEndian.AppendUint64(nil, sequence)
	return crc32.Update(crc32.Checksum(number, table), table, data)
}
