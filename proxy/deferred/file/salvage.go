package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"weir/proxy/deferred"
)

// salvage searches all pages of a file for requests if its tree cannot be read at all. Pages that
// are no longer in use cannot be distinguished from the others, so it is unknown which requests
// were delivered: those that have not expired become dead letters, which an operator may retry.
func (q *Queue) salvage(c *copier) (found int, err error) {
	f, err := os.Open(q.cfg.Path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	settled := make(map[uint64]bool)
	err = eachLeaf(f, func(key, value []byte) {
		for s := deferred.Done; int(s) < deferred.StateCount; s++ {
			plain, err := c.from.Open(value, aad(bucketOf(s), key))
			if err != nil {
				continue
			}
			if row, err := parseRow(plain); err == nil && row.State.Final() {
				settled[binary.BigEndian.Uint64(key)] = true
			}
		}
	})
	if err != nil {
		return 0, err
	}
	err = eachLeaf(f, func(key, value []byte) {
		plain, err := c.from.Open(value, aad(bucketRequests, key))
		if err != nil {
			return
		}
		e, err := deferred.ParseEntry(plain)
		if err != nil || e.Rule == "" || settled[binary.BigEndian.Uint64(key)] || c.err != nil ||
			!e.Expires.After(q.now) || c.tx.Bucket(bucketIDs).Get(e.ID[:]) != nil {
			return // it is none, or delivered, expired, or found already
		}
		c.last++
		e.Last.Error = "found in a damaged file: it may have been delivered"
		c.records().put(bucketRequests, c.last, deferred.AppendEntry(nil, e))
		c.deadLetter(c.last, e)
		c.wrote(len(e.Head) + len(e.Body))
		found++
		q.state.Lock()
		q.givenUp[deferred.GivenUpLabels{Rule: e.Rule, To: deferred.Unknown}]++
		q.state.Unlock()
	})
	return found, errors.Join(err, c.err)
}

// The format of a page of bbolt: u64 number, u16 flags, u16 elements, u32 further pages; and of
// an element of a leaf: u32 flags, u32 offset of the key from here, u32 length of the key, u32
// length of the value.
const (
	pageHead    = 16
	leafFlag    = 2
	elementHead = 16
	// overflowMax bounds the pages of an entry; bodies are far smaller.
	overflowMax = 1 << 14
)

// eachLeaf calls value for the values under sequence numbers in all leaf pages of a file.
func eachLeaf(f *os.File, value func(key, value []byte)) error {
	size := os.Getpagesize()
	head := make([]byte, pageHead)
	for n := int64(0); ; n++ {
		if _, err := f.ReadAt(head, n*int64(size)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read page %d: %w", n, err)
		}
		more := binary.NativeEndian.Uint32(head[12:])
		if binary.NativeEndian.Uint64(head) != uint64(n) || binary.NativeEndian.Uint16(head[8:]) != leafFlag ||
			more > overflowMax {
			continue
		}
		page := make([]byte, size*int(more+1))
		got, _ := f.ReadAt(page, n*int64(size)) // the file may be truncated
		eachElement(page[:got], value)
	}
}

// eachElement calls value for the values under sequence numbers in a page.
func eachElement(page []byte, value func(key, value []byte)) {
	for i := range int(binary.NativeEndian.Uint16(page[10:])) {
		at := pageHead + i*elementHead
		if at+elementHead > len(page) {
			return
		}
		begin := uint64(at) + uint64(binary.NativeEndian.Uint32(page[at+4:]))
		keyBytes, valueBytes := uint64(binary.NativeEndian.Uint32(page[at+8:])),
			uint64(binary.NativeEndian.Uint32(page[at+12:]))
		if keyBytes != 8 || begin+keyBytes+valueBytes > uint64(len(page)) {
			continue
		}
		value(page[begin:begin+8], page[begin+8:begin+8+valueBytes])
	}
}
