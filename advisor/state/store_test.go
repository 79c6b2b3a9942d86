package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

var day = time.Date(2026, 1, 19, 16, 30, 0, 0, time.UTC)

// open opens a store and fails unless it finds a checkpoint with that sequence number (-1: none)
// and those records.
func open(t *testing.T, path string, sequence int, records ...uint64) (*Store, *Recovered) {
	t.Helper()
	s, found, err := Open(day, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	got := -1
	if found.Checkpoint != nil {
		got = int(found.Checkpoint.Sequence)
	}
	var numbers []uint64
	for _, r := range found.Records {
		numbers = append(numbers, r.Sequence)
		if want := fmt.Sprintf(`{"n":%d}`, r.Sequence); string(r.Data) != want {
			t.Errorf("record %d is %s, want %s", r.Sequence, r.Data, want)
		}
	}
	if got != sequence || fmt.Sprint(numbers) != fmt.Sprint(records) {
		t.Errorf("found image %d and records %v, want %d and %v; %q", got, numbers, sequence, records, found.Remarks)
	}
	return s, found
}

// image returns a checkpoint whose parts depend on its sequence number.
func image(sequence uint64) Checkpoint {
	return Checkpoint{Sequence: sequence, Parts: map[string][]byte{"forecast": bytes.Repeat([]byte{byte(sequence)}, 1000),
		"policy": nil}}
}

// begin saves.
func begin(t *testing.T, s *Store, sequence uint64) {
	t.Helper()
	if err := s.Save(image(sequence)); err != nil {
		t.Fatal(err)
	}
}

func add(s *Store, from, to uint64) {
	for n := from; n <= to; n++ {
		s.Append(Record{n, fmt.Appendf(nil, `{"n":%d}`, n)})
	}
}

// flush fails unless the journal is written.
func flush(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "advisor.state")
	s, _ := open(t, path, -1)
	begin(t, s, 0)
	add(s, 1, 40)
	begin(t, s, 40)
	add(s, 41, 45)
	flush(t, s)
	add(s, 46, 50)
	s.Close()

	s, found := open(t, path, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50)
	if got, want := found.Checkpoint.Parts["forecast"], image(40).Parts["forecast"]; !bytes.Equal(got, want) {
		t.Errorf("the part is %v, want %v", got[:5], want[:5])
	}
	if found.Checkpoint.Parts["policy"] == nil || len(found.Checkpoint.Parts) != 2 || len(found.Remarks) > 0 {
		t.Errorf("parts %v, remarks %q", found.Checkpoint.Parts, found.Remarks)
	}
	begin(t, s, 50)
	if names, err := s.journals(); err != nil || len(names) > 1 {
		t.Errorf("after saving there are the journals %v, %v", names, err)
	}
	s.Close()
	open(t, path, 50)
}

func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, _ := open(t, path, -1)
	begin(t, s, 7)
	add(s, 8, 9)
	flush(t, s)
	add(s, 10, 10)
	s.lock.Close() // as if the process had ended
	open(t, path, 7, 8, 9)
}

// Records that are newer than a checkpoint are kept when it is saved, in the journal or waiting.
func TestNewerThanTheImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, _ := open(t, path, -1)
	begin(t, s, 0)
	add(s, 1, 3)
	flush(t, s)
	add(s, 4, 5)
	begin(t, s, 2)
	flush(t, s)
	begin(t, s, 5)
	add(s, 6, 7)
	begin(t, s, 6)
	s.Close()
	open(t, path, 6, 7)
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	open(t, path, -1)
	if _, _, err := Open(day, path); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("opened twice: %v", err)
	}
	if _, _, err := Open(day, "/proc/nowhere/s"); err == nil ||
		!strings.Contains(err.Error(), "open state /proc/nowhere/s") {
		t.Errorf("opened where nothing can be written: %v", err)
	}
}

func TestDamagedImage(t *testing.T) {
	m := image(5)
	whole := testkit.Must(m.encode())(t)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-3] ^= 1
	for _, c := range []struct {
		name, data, want string
	}{
		{"empty", "", "is not a state of the advisor"},
		{"other", "{\"a\":1}\n", "is not a state of the advisor"},
		{"cut", string(whole[:len(whole)-1]), "is cut off: 1023 of 1024 bytes"},
		{"cut head", string(whole[:10]), "is not a state"},
		{"longer", string(whole) + "x", "has 1 bytes too many"},
		{"flipped", string(flipped), "is damaged: the checksum does not match"},
		{"sequence", strings.Replace(string(whole), " 5 ", " 6 ", 1), "is damaged: the checksum does not match"},
		{"version", strings.Replace(string(whole), " 1 5", " 9 5", 1), "has version 9, this program reads version 1"},
		{"head", checkpointWord + " 1 x\n", "has a damaged first line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			s, found := open(t, path, -1)
			if len(found.Remarks) != 1 || !strings.Contains(found.Remarks[0], c.want) {
				t.Fatalf("remarks %q, want %q", found.Remarks, c.want)
			}
			kept, err := os.ReadFile(path + ".corrupt-20260119T163000.000Z")
			if err != nil || string(kept) != c.data {
				t.Errorf("kept aside: %d bytes, %v", len(kept), err)
			}
			begin(t, s, 1)
			s.Close()
			open(t, path, 1)
		})
	}
}

func TestDamagedJournal(t *testing.T) {
	line := func(n uint64) string {
		return string(appendRecord(nil, Record{n, fmt.Appendf(nil, `{"n":%d}`, n)}))
	}
	head := journalHead + "\n"
	for _, c := range []struct {
		name, data, want string
		records          []uint64
	}{
		{"whole", head + line(3) + line(4), "", []uint64{3, 4}},
		{"cut", head + line(3) + line(4)[:9], "up to record 1: the last line is cut off", []uint64{3}},
		{"damaged", head + line(3) + strings.Replace(line(4), "n", "m", 1) + line(5), "up to record 1: line 3 is damaged",
			[]uint64{3}},
		{"no number", head + "0123 \n" + line(3), "line 2 is damaged", nil},
		{"before the image", head + line(1) + line(2) + line(3), "", []uint64{3}},
		{"cut head", head[:5], "its first line is cut off", nil},
		{"other", "x\n" + line(3), "not a journal of this version", nil},
		{"empty", head, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			s, _ := open(t, path, -1)
			begin(t, s, 2)
			s.Close()
			if err := os.WriteFile(s.journalName(2), []byte(c.data), 0o600); err != nil {
				t.Fatal(err)
			}
			_, found := open(t, path, 2, c.records...)
			if remarks := strings.Join(found.Remarks, "\n"); (remarks == "") != (c.want == "") ||
				!strings.Contains(remarks, c.want) {
				t.Errorf("remarks %q, want %q", remarks, c.want)
			}
		})
	}
}

// While the disk accepts no writes, no record and no checkpoint is lost.
func TestDiskAway(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "disk")
	away := folder + "-away"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "s")
	s, _ := open(t, path, -1)
	begin(t, s, 0)
	if err := os.Rename(folder, away); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(image(3)); err == nil || !strings.Contains(err.Error(), "save state "+path) {
		t.Errorf("saved without a folder: %v", err)
	}
	add(s, 1, 2)
	for range 2 {
		if err := s.Flush(); err == nil {
			t.Error("the journal was written without a folder")
		}
	}
	if f := s.RecordCounts(); f.JournalErrors != 2 || f.JournalBytes != 0 {
		t.Errorf("counted %+v", f)
	}
	if err := os.Rename(away, folder); err != nil {
		t.Fatal(err)
	}
	add(s, 3, 3)
	s.Close()
	open(t, path, 0, 1, 2, 3)
}

// With a full disk at the start the journals are kept, and a new one follows them.
func TestStartOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, _ := open(t, path, -1)
	add(s, 1, 3)
	s.Close()
	for n := uint64(4); n < 10; n += 3 {
		s, _ = open(t, path, -1, upTo(n-1)...)
		if err := os.Symlink("/dev/full", path+".tmp"); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(image(n - 1)); !IsDiskFull(err) {
			t.Errorf("saved on a full disk: %v", err)
		}
		add(s, n, n+2)
		s.Close()
	}
	s, _ = open(t, path, -1, upTo(9)...)
	begin(t, s, 9)
	s.Close()
	open(t, path, 9)
}

func upTo(n uint64) (numbers []uint64) {
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// A path that is not a regular file is refused, and nothing is created next to it.
func TestNoFile(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(folder, "n")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"s": "is a directory", "n": "is not a regular file"} {
		if _, _, err := Open(day, filepath.Join(folder, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A line that is cut off by a full disk is removed, so that the next one is complete.
func TestDiskFull(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	var j journal
	write := func(n uint64) error { return j.write(name, appendRecord(nil, Record{n, []byte("x")}), n) }
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	good := j.file
	full := testkit.Must(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	j.file = full
	if write(2) == nil || j.last != 1 {
		t.Error("the full disk took something")
	}
	full.Close()
	j.file = good
	if err := write(3); err != nil {
		t.Fatal(err)
	}
	j.close()
	data, err := os.ReadFile(name)
	if records, wrong := readJournal(data); err != nil || wrong != "" || len(records) != 2 {
		t.Errorf("journal %q: %q, %v", data, wrong, err)
	}
}

// The waiting records are bounded, and those beyond are dropped and counted.
func TestPendingBound(t *testing.T) {
	s, _ := open(t, filepath.Join(t.TempDir(), "s"), -1)
	data := bytes.Repeat([]byte{'x'}, pendingMax/4)
	for n := range uint64(4) {
		s.Append(Record{n, data})
	}
	if s.RecordCounts().Lost != 1 || len(s.waiting) > pendingMax {
		t.Errorf("%d lost with %d bytes waiting", s.RecordCounts().Lost, len(s.waiting))
	}
}

func TestCheckpointBounds(t *testing.T) {
	many := Checkpoint{Parts: make(map[string][]byte)}
	for i := range partsMax {
		many.Parts[strconv.Itoa(i)] = nil
	}
	if _, err := many.encode(); err != nil {
		t.Errorf("%d parts: %v", partsMax, err)
	}
	many.Parts["x"] = nil
	large := Checkpoint{Parts: map[string][]byte{"x": make([]byte, checkpointMax)}}
	for _, m := range []Checkpoint{many, large, {Parts: map[string][]byte{strings.Repeat("n", 256): nil}}} {
		if _, err := m.encode(); err == nil {
			t.Errorf("an image of %d parts and %d bytes is kept", len(m.Parts), m.Size())
		}
	}
}

func FuzzDecode(f *testing.F) {
	m := image(3)
	data, _ := m.encode()
	f.Add(data)
	f.Add([]byte(checkpointWord + " 1 0 3 00000000\nabc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = decodeParts(data)
		m, err := decode(data)
		if err != nil {
			return
		}
		again := testkit.Must(m.encode())(t)
		if n, err := decode(again); err != nil || n.Sequence != m.Sequence || len(n.Parts) != len(m.Parts) {
			t.Errorf("%+v became %+v, %v", m, n, err)
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add(append([]byte(journalHead+"\n"), appendRecord(nil, Record{1, []byte("{}")})...))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, wrong := readJournal(data)
		out := []byte(journalHead + "\n")
		for _, r := range records {
			out = appendRecord(out, r)
		}
		again, _ := readJournal(out)
		if len(again) != len(records) {
			t.Errorf("%d records became %d (%s)", len(records), len(again), wrong)
		}
	})
}
