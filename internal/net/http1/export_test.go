package http1

var stateNames = [...]string{
	"head", "body", "body until close", "chunk size", "chunk", "chunk end", "trailer", "end", "upgraded", "failed",
}

// String returns what the Reader expects next.
func (r *Reader) String() string { return stateNames[r.state] }
