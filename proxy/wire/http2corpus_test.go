package wire

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/test/testkit"
)

// An http2Case is a line of testdata/http2, see the README there.
type http2Case struct {
	name, rule string
	bare       bool // without a connection preface
	frames     []string
	wants      []http2Want
	last       uint32 // the highest identifier of a stream
}

// An http2Want is what a client gets on a stream, or on the connection.
type http2Want struct {
	stream                 uint32
	status                 int    // of the response; 0: none
	reset, goAway, answers string // a code or, of answers, the type of a frame with ACK; or ""
	request                []string
}

// http2Corpus reads testdata/http2.
func http2Corpus(t *testing.T) (cases []*http2Case) {
	t.Helper()
	files := testkit.Must(filepath.Glob("testdata/http2/*.txt"))(t)
	seen := make(map[string]bool)
	for _, file := range files {
		text := string(testkit.Must(os.ReadFile(file))(t))
		rule := ""
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n ", " "), "\n") {
			switch {
			case line == "" || line[0] == '#':
				continue
			case line[0] == '=':
				rule = line[1:]
				continue
			}
			c, err := parseHTTP2Case(line)
			if err != nil || seen[c.name] {
				t.Fatalf("%s: %v, or there twice: %s", file, err, line)
			}
			c.rule, seen[c.name] = strings.TrimSpace(rule), true
			cases = append(cases, c)
		}
	}
	return cases
}

// parseHTTP2Case parses "name: frame; frame -> want; want".
func parseHTTP2Case(line string) (*http2Case, error) {
	name, rest, ok := strings.Cut(line, ": ")
	sent, wants, both := strings.Cut(rest, " -> ")
	if !ok || !both {
		return nil, fmt.Errorf("no name, or no verdict")
	}
	c := &http2Case{name: name, frames: strings.Split(sent, "; ")}
	c.bare = strings.HasPrefix(c.frames[0], "RAW ")
	for _, f := range c.frames {
		c.last = max(c.last, streamOf(strings.Fields(f))&(1<<31-1))
	}
	for text := range strings.SplitSeq(wants, "; ") {
		w, err := parseHTTP2Want(strings.Fields(text))
		if err != nil {
			return nil, err
		}
		c.wants = append(c.wants, w)
	}
	return c, nil
}

// streamOf returns the stream that the words of a frame or a verdict name, or 1.
func streamOf(words []string) uint32 {
	for _, w := range words {
		if id, err := strconv.ParseUint(strings.TrimPrefix(w, "#"), 10, 32); err == nil && w[0] == '#' {
			return uint32(id)
		}
	}
	return 1
}

func parseHTTP2Want(words []string) (w http2Want, err error) {
	w.stream = streamOf(words)
	words = slices.DeleteFunc(words, func(w string) bool { return w[0] == '#' })
	switch {
	case len(words) == 2 && words[0] == "RST_STREAM":
		w.reset = words[1]
	case len(words) > 1 && words[0] == "GOAWAY":
		w.goAway, w.request, w.stream = words[1], words[2:], 0
	case len(words) == 2 && words[0] == "ACK":
		w.answers, w.stream = words[1], 0
	case len(words) == 1 && words[0] == "nothing":
	default:
		w.status, err = strconv.Atoi(words[0])
		w.request = words[1:]
	}
	return w, err
}

// plain expands {text*n} and then the escapes of Go strings, and \s, which is a blank.
func plain(word string) (string, error) {
	for {
		from := strings.IndexByte(word, '{')
		if from < 0 {
			break
		}
		body, rest, _ := strings.Cut(word[from+1:], "}")
		at := strings.LastIndexByte(body, '*')
		n, err := strconv.Atoi(body[at+1:])
		if err != nil {
			return "", fmt.Errorf("repeat in %q: %w", word, err)
		}
		word = word[:from] + strings.Repeat(body[:at], n) + rest
	}
	word = strings.ReplaceAll(strings.ReplaceAll(word, `\s`, " "), `"`, `\"`)
	return strconv.Unquote(`"` + word + `"`)
}

// An http2Writer writes the frames of a case.
type http2Writer struct {
	out     []byte
	block   strings.Builder
	encoder *hpack.Encoder
	err     error
}

func newHTTP2Writer(c *http2Case) *http2Writer {
	w := new(http2Writer)
	w.encoder = hpack.NewEncoder(&w.block)
	if !c.bare {
		w.out = append(w.out, xnet.ClientPreface...)
		w.frame(xnet.FrameSettings, 0, 0, "")
	}
	return w
}

func (w *http2Writer) frame(kind xnet.FrameType, flags xnet.Flags, id uint32, payload string) {
	n := len(payload)
	w.out = append(w.out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	w.out = append(w.out, payload...)
}

// text is plain, whose error is kept.
func (w *http2Writer) text(word string) string {
	s, err := plain(word)
	if err != nil {
		w.err = err
	}
	return s
}

// number parses a number, which may be hexadecimal.
func (w *http2Writer) number(word string) uint32 {
	n, err := strconv.ParseUint(word, 0, 32)
	if err != nil {
		w.err = err
	}
	return uint32(n)
}

// number4 is a number of four octets.
func (w *http2Writer) number4(word string) string {
	n := w.number(word)
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// write writes a frame, or several equal ones.
func (w *http2Writer) write(text string) {
	words := strings.Fields(text)
	if n, found := strings.CutSuffix(words[0], "x"); found && n != "" {
		for range w.number(n) {
			w.write(strings.Join(words[1:], " "))
		}
		return
	}
	id := streamOf(words)
	flags, padding, priority := xnet.Flags(0), "", ""
	more, open := false, false
	args := slices.DeleteFunc(words[1:], func(word string) bool {
		option, value, _ := strings.Cut(word, "=")
		switch option {
		case "+more":
			more = true
		case "+open":
			open = true
		case "+pad":
			flags |= xnet.FlagHeadersPadded
			padding = strings.Repeat("\x00", int(w.number(value)))
		case "+dependency":
			flags |= xnet.FlagHeadersPriority
			priority = w.number4(value) + "\x10"
		default:
			return word[0] == '#'
		}
		return true
	})
	if !more {
		flags |= xnet.FlagHeadersEndStream
	}
	padded := func(payload string) string {
		if !flags.Has(xnet.FlagHeadersPadded) {
			return payload
		}
		return string([]byte{byte(len(padding))}) + payload + padding
	}
	if !open {
		flags |= xnet.FlagHeadersEndHeaders
	}
	switch kind := words[0]; kind {
	case "RAW":
		w.out = append(w.out, w.text(args[0])...)
	case "HEADERS":
		w.frame(xnet.FrameHeaders, flags, id, padded(priority+w.fields(args)))
	case "CONTINUATION":
		w.frame(xnet.FrameContinuation, flags&^xnet.FlagHeadersEndStream, id, w.fields(args))
	case "DATA":
		w.frame(xnet.FrameData, flags&^xnet.FlagHeadersEndHeaders, id, padded(w.text(strings.Join(args, ""))))
	case "SETTINGS":
		payload := ""
		for _, a := range args {
			setting, value, _ := strings.Cut(a, "=")
			payload += w.number4(setting)[2:] + w.number4(value)
		}
		w.frame(xnet.FrameSettings, 0, 0, payload)
	case "WINDOW_UPDATE", "RST_STREAM":
		w.frame(map[string]xnet.FrameType{"WINDOW_UPDATE": xnet.FrameWindowUpdate, "RST_STREAM": xnet.FrameRSTStream}[kind],
			0, id, w.number4(args[0]))
	case "FRAME": // type, flags, payload
		w.frame(xnet.FrameType(w.number(args[0])), xnet.Flags(w.number(args[1])), id, w.text(strings.Join(args[2:], "")))
	default: // a method
		base := []string{":method=" + kind, ":scheme=http", ":authority=x", ":path=" + args[0]}
		w.frame(xnet.FrameHeaders, flags, id, padded(priority+w.fields(append(base, args[1:]...))))
	}
}

// fields encodes fields, never in a way that changes the table of the decoder, and octets after "hex:".
func (w *http2Writer) fields(words []string) string {
	w.block.Reset()
	for _, word := range words {
		if octets, found := strings.CutPrefix(word, "hex:"); found {
			b, err := hex.DecodeString(w.text(octets))
			if err != nil {
				w.err = err
			}
			w.block.Write(b)
			continue
		}
		times := 1
		if n, field, found := strings.Cut(word, "*"); found && strings.Trim(n, "0123456789") == "" && n != "" {
			times, word = int(w.number(n)), field
		}
		name, value, found := strings.Cut(word, "=")
		if !found {
			w.err = fmt.Errorf("no field: %q", word)
		}
		f := hpack.HeaderField{Name: w.text(name), Value: w.text(value), Sensitive: true}
		for range times {
			_ = w.encoder.WriteField(f) // a builder takes everything
		}
	}
	return w.block.String()
}

// octets returns what the client sends: the frames of the case, and a request on a neighbouring stream.
func (c *http2Case) octets(from string) (b []byte, neighbour uint32, err error) {
	w := newHTTP2Writer(c)
	for _, f := range c.frames {
		w.write(f)
	}
	neighbour = (c.last | 1) + 2
	if !c.ends() {
		w.write(fmt.Sprintf("GET /again/%s #%d", from, neighbour))
	}
	return w.out, neighbour, w.err
}

// ends reports whether the connection ends.
func (c *http2Case) ends() bool {
	return slices.ContainsFunc(c.wants, func(w http2Want) bool { return w.goAway != "" })
}
