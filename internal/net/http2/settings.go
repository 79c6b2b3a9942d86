package http2

import "encoding/binary"

// Settings (RFC 9113 6.5.2).
const (
	settingEnablePush    = 0x2
	settingStreams       = 0x3
	settingInitialWindow = 0x4
	settingFrameBytes    = 0x5
	settingListBytes     = 0x6
)

// appendSettings appends our SETTINGS frame. Those not in it have their initial values.
func (c *Conn) appendSettings(dst []byte) []byte {
	dst = appendFrame(dst, frame{length: 3 * 6, kind: frameSettings})
	if c.role == Client {
		dst = appendSetting(dst, settingEnablePush, 0)
	} else {
		dst = appendSetting(dst, settingStreams, c.limits.Streams)
	}
	dst = appendSetting(dst, settingInitialWindow, c.limits.Window)
	return appendSetting(dst, settingListBytes, c.headBytesMax)
}

func appendSetting(dst []byte, id uint16, value int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, id)
	return binary.BigEndian.AppendUint32(dst, uint32(value))
}

// settingsFrame processes a SETTINGS frame (RFC 9113 6.5).
func (c *Conn) settingsFrame(f frame, p []byte) (Event, *Error) {
	if f.has(flagAck) {
		return Event{}, c.control()
	}
	if !c.settled {
		c.settled, c.peerStreams = true, idMax // without the setting there is no limit
	}
	if err := c.control(); err != nil {
		return Event{}, err
	}
	window := c.peerWindow
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return Event{}, err
		}
	}
	for i := range c.streams {
		s := &c.streams[i]
		if s.send += c.peerWindow - window; s.send > windowMax {
			return Event{}, errOverflow
		}
	}
	c.out = appendFrame(c.out, frame{kind: frameSettings, flags: flagAck})
	return Event{Kind: Settings}, nil
}

// setting checks and stores one setting. Unknown ones are ignored.
func (c *Conn) setting(id uint16, value uint32) *Error {
	switch id {
	case settingEnablePush:
		if value > 1 || value == 1 && c.role == Client {
			return errSetting
		}
	case settingStreams:
		c.peerStreams = int(min(value, idMax))
	case settingInitialWindow:
		if value > windowMax {
			return errOverflow
		}
		c.peerWindow = int(value)
	case settingFrameBytes:
		if value < frameBytesMax || value >= 1<<24 {
			return errSetting
		}
	case settingListBytes:
		c.peerListBytes = int(min(value, idMax))
	}
	return nil
}
