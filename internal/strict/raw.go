package strict

import "encoding/json"

// Raw is a JSON value that is kept as it was written, to be decoded later when it is
// known what it must be, like the parameters that depend on a type named beside them. It
// is checked for its syntax, not for its names. At gives the errors of the later decoding
// their full path.
type Raw = json.RawMessage
