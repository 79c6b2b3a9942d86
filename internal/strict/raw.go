package strict

import "encoding/json"

// Raw is a JSON value that is kept as written, to be decoded later when its type is known. Its
// syntax is checked, but not its names. Use At for the errors of the later decoding, so that
// they have the full path.
type Raw = json.RawMessage
