package wiretest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/internal/net/http1/http1test"
	"weir/proxy/http/exchange"
)

// current returns the request whose answer comes next.
func (c *caller) current() (*request, error) {
	switch {
	case c.closing:
		return nil, errors.New("bytes after the last answer")
	case c.answered == len(c.plan):
		return nil, errors.New("an answer without a request")
	}
	return c.plan[c.answered], nil
}

// Head judges the head of an answer.
func (c *caller) Head(h *http1test.Head) error {
	r, err := c.current()
	if err != nil {
		return fmt.Errorf("%w: %s", err, h.Line)
	}
	c.front.Log.Note(c.w.Now(), "client reads answer to request", int64(r.id), h.Line)
	if h.Status < 200 {
		return c.interim(r, h)
	}
	c.got = 0
	unread := r.kind == malformed || h.Status == 408 && r.decisions == 0 // the method is unknown
	c.reader.Bodyless = r.method == "HEAD" && !unread
	c.closing = slices.Contains(h.Values("connection"), "close")
	if !r.sent && h.Status != 408 {
		return fmt.Errorf("request %d is answered before it was sent: %s", r.id, h.Line)
	}
	if r.minor == 0 && len(h.Values("transfer-encoding")) > 0 {
		return errors.New("chunks for an HTTP/1.0 client")
	}
	id := h.Value("x-id")
	if c.relayed = id != ""; c.relayed {
		return c.judgeRelayed(r, h, id)
	}
	return c.judgeOwn(r, h)
}

func (c *caller) interim(r *request, h *http1test.Head) error {
	switch {
	case r.minor == 0:
		return errors.New("an interim answer for an HTTP/1.0 client")
	case h.Status == 100 && !r.expect:
		return errors.New("100 that was not asked for")
	case h.Status == 100 && r.asks() && !r.allowed && !r.postponed:
		return fmt.Errorf("100 to request %d, which is not admitted", r.id)
	case h.Status == 100:
		r.continued = true
	case h.Status == 101:
		if r.kind != upgrade || r.answer.status != 101 || h.Value("x-id") != itoa(int(r.id)) {
			return fmt.Errorf("request %d becomes a tunnel of %s", r.id, h.Value("x-id"))
		}
		c.tunnel, c.got = true, 0
	}
	return nil
}

// judgeRelayed judges an answer that came from a target.
func (c *caller) judgeRelayed(r *request, h *http1test.Head, id string) error {
	switch {
	case id != strconv.FormatUint(r.id, 10):
		return fmt.Errorf("request %d gets the answer to %s", r.id, id)
	case r.kind != own && !r.allowed:
		return fmt.Errorf("request %d was not admitted, and is answered by a target", r.id)
	case r.kind != own && r.arrivals == 0:
		return fmt.Errorf("request %d never came to a target that answers it", r.id)
	case h.Status != r.answer.status:
		return fmt.Errorf("request %d is answered %d, the target meant %d", r.id, h.Status, r.answer.status)
	}
	return nil
}

// judgeOwn judges an answer that the proxy made itself.
func (c *caller) judgeOwn(r *request, h *http1test.Head) error {
	calm := c.w.Profile.calm
	status := r.kind.status()
	ok := false
	switch h.Status {
	case 202:
		ok = r.kept && strings.HasPrefix(h.Value("location"), "/deferred/")
	case 429:
		ok = !r.kept && r.asks() && r.decisions > 0 && !r.allowed && !r.storeAway &&
			h.Value("x-weir-decision") != ""
	case 503:
		ok = !calm
	case 502, 504:
		ok = !calm && r.asks() && r.allowed
	case 408:
		ok = !calm || r.kind == partial
	case 413:
		ok = r.kind == tooLarge || r.kind == growing && r.allowed
	default:
		ok = status == h.Status
	}
	if !ok {
		return fmt.Errorf("request %d (kind %d, allowed %t, %d decisions) is answered by the proxy: %s", r.id, r.kind,
			r.allowed, r.decisions, h.Line)
	}
	return nil
}

// Body judges a piece of an answer's body, or of a tunnel.
func (c *caller) Body(b []byte) error {
	r := c.plan[c.answered]
	size := r.answer.size
	if c.tunnel {
		size = r.answer.down
	}
	at := c.got
	c.got += len(b)
	if !c.relayed && !c.tunnel {
		return nil
	}
	if c.got > size || !bytes.Equal(b, c.w.down(r.id, at, len(b))) {
		return fmt.Errorf("request %d: bytes %d to %d of the answer's %d are not the target's", r.id, at, c.got, size)
	}
	return nil
}

// Whole judges a complete answer.
func (c *caller) Whole() error {
	if c.reader.Trailers != "" { // no caller says that it takes them
		return fmt.Errorf("an answer ends with the trailers %q", c.reader.Trailers)
	}
	r := c.plan[c.answered]
	c.answered++
	if c.answered < len(c.plan) && c.plan[c.answered].never || r.last {
		c.hangsUp = true
	}
	r.continued = true
	c.Wake()
	if !c.relayed {
		c.w.Saw("answers of the proxy's own")
		return nil
	}
	c.w.Saw("answers of targets")
	size := r.answer.size
	if r.bodyless() {
		size = 0
	}
	if c.got != size {
		return fmt.Errorf("the answer to request %d is complete with %d bytes of %d", r.id, c.got, size)
	}
	if size > bufferMax {
		c.w.Saw("streams")
	}
	return nil
}

// checkOwn judges a request to an own endpoint and answers it.
func (w *World) checkOwn(req *http.Request, content []byte, err error) *exchange.OwnResponse {
	id, _ := strconv.ParseUint(req.Header.Get("X-Req"), 10, 64)
	r := w.requests[id]
	if err != nil || r == nil || r.kind != own {
		w.failed(nil, "an own endpoint gets %s %s: %v", req.Method, req.RequestURI, err)
		return &exchange.OwnResponse{Status: http.StatusInternalServerError}
	}
	if req.Method != r.method || req.URL.Path != r.target || !bytes.Equal(content, w.up(id, 0, r.body)) {
		r.caller.wrong("request %d: an own endpoint gets %s %s with %d bytes of %d", id, req.Method, req.RequestURI,
			len(content), r.body)
	}
	return &exchange.OwnResponse{Status: http.StatusOK, Fields: [][2]string{{"X-Id", strconv.FormatUint(id, 10)}},
		Body: w.down(id, 0, r.answer.size)}
}
